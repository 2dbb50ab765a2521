"""The servers behind the targets: keys that rest, and parts of a request that a server refuses until they are left out.

What a server refuses is fixed for the session, so a repair can be held against it: the request after it must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hermes.kernel.config.settings import PoolSettings
from hermes.kernel.credentials import Pool
from hermes.kernel.effects import Fault, FaultKind, RepairKind
from hermes.kernel.keystate import KeyState
from hermes.kernel.messages import Image, ModelRequest, Thinking, ToolResult

PARAMETERS = ("temperature", "parallel_tool_calls", "reasoning.summary")


class Violation(AssertionError):
    """A rule was broken; the message says which."""


class Rests:
    """What is known of keys, as `KeyStates` keeps it in a file: here in memory, on the session's clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._known: dict[str, KeyState] = {}

    def read(self, keys: Sequence[str]) -> Mapping[str, KeyState]:
        return {key: self._known.setdefault(key, KeyState()) for key in keys}

    def change(self, keys: Sequence[str], make: Callable[[Mapping[str, KeyState]], Any]) -> Any:
        return make(self.read(keys))


@dataclass(frozen=True, slots=True)
class Quirks:
    """What one server refuses. `images`: how many it takes; `image_chars`: base64 of one; `says`: it states limits."""

    parameters: tuple[str, ...] = ()
    thinking: bool = False
    tool_images: bool = False
    grammar: bool = False
    schema: bool = False
    images: int | None = None
    image_chars: int | None = None
    output: int | None = None
    says: bool = True

    @classmethod
    def draw(cls, rng: Random, rate: float) -> Quirks:
        if rng.random() >= rate:
            return cls()
        some = [rng.random() < 0.3 for _ in range(6)]
        return cls(
            parameters=tuple(name for name in PARAMETERS if rng.random() < 0.3),
            thinking=some[0],
            tool_images=some[1],
            grammar=some[2],
            schema=some[3],
            images=rng.choice((0, 1, 2)) if some[4] else None,
            image_chars=rng.choice((3, 1000)) if some[4] else None,
            output=rng.choice((2000, 3000)) if some[5] else None,
            says=rng.random() < 0.7,
        )

    def refusal(self, request: ModelRequest, *, blind: bool) -> Fault | None:
        """What is wrong with a request; None when it passes."""
        left_out = request.leave_out
        for name in self.parameters:
            if name not in left_out:
                return _refused(RepairKind.PARAMETER, name)
        if self.thinking and "thinking_blocks" not in left_out and _has_thinking(request):
            return _refused(RepairKind.THINKING, "thinking")
        if self.grammar and "schema_keywords" not in left_out and request.system is None:
            return _refused(RepairKind.GRAMMAR, "pattern")
        if self.schema and request.schema is not None and "schema" not in left_out:
            return Fault(FaultKind.BAD_REQUEST, "this server takes no schema")
        if self.output is not None and (request.output_cap or 0) > self.output:
            stated = self.output if self.says else None
            return Fault(FaultKind.OUTPUT_CAP, "so much cannot be written", output_limit_tokens=stated)
        is_fine = self.images is None and self.image_chars is None and not self.tool_images
        return None if is_fine or blind or request.system is not None else self._images(shown(request))

    def _images(self, images: list[tuple[bool, int]]) -> Fault | None:
        if self.tool_images and any(of_tool for of_tool, _ in images):
            return _refused(RepairKind.TOOL_IMAGES, "content")
        sizes = [size for _, size in images]
        if self.images is not None and len(sizes) > self.images:
            what = "too_many" if self.images else "unsupported"
            return _refused(RepairKind.IMAGES, what, self.images if self.says and self.images else None)
        if self.image_chars is not None and max(sizes, default=0) > self.image_chars:
            return _refused(RepairKind.IMAGES, "too_large", self.image_chars if self.says else None)
        return None


def shown(request: ModelRequest) -> list[tuple[bool, int]]:
    """(is it part of a tool's result, characters of base64) for each image that this request shows, oldest first."""
    rule = request.images
    found = [
        (of_tool, len(image.data))
        for index, message in enumerate(request.messages)
        for of_tool, image in _images_in(message.parts)
        if index >= rule.start and not (rule.max_bytes is not None and len(image.data) > rule.max_bytes)
        if rule.in_results or not of_tool
    ]
    return found if rule.most is None else found[max(len(found) - rule.most, 0) :]


def _images_in(parts: Sequence[Any], of_tool: bool = False) -> Iterator[tuple[bool, Image]]:
    for part in parts:
        if isinstance(part, Image):
            yield of_tool, part
        elif isinstance(part, ToolResult):
            yield from _images_in(part.parts, True)


def _has_thinking(request: ModelRequest) -> bool:
    return any(isinstance(part, Thinking) for message in request.messages for part in message.parts)


def _refused(repair: RepairKind, subject: str, limit: int | None = None) -> Fault:
    kind = FaultKind.IMAGE_REFUSED if repair is RepairKind.IMAGES else FaultKind.BAD_REQUEST
    return Fault(kind, f"this server refuses {subject}", repair=repair, subject=subject, subject_limit=limit)


@dataclass(slots=True)
class Server:
    """One target's. `billed`: until when a key that nobody pays for must not be sent again in this life of the turn."""

    pool: Pool
    quirks: Quirks
    key: str = ""
    billed: dict[str, float] = field(default_factory=dict)

    def takes(self, request: ModelRequest) -> None:
        """A request arrives, with the key that the runtime chooses for it."""
        self.key = self.pool.next_key()
        if self.billed.get(self.key, 0.0) > self.pool.states.clock() and request.purpose != "auxiliary":
            raise Violation(f"{self.key} was refused for billing and is sent again in the same turn")

    def refuses(self, fault: Fault, request: ModelRequest) -> int:
        """How many other keys are ready, after the one of this request was refused."""
        if fault.kind is FaultKind.BILLING and request.purpose != "auxiliary":
            stated = fault.retry_after_s
            self.billed[self.key] = self.pool.states.clock() + (3600.0 if stated is None else max(stated, 60.0))
        return self.pool.refused(self.key, fault)


def serve(name: str, keys: int, quirks: Quirks, strategy: str, clock: Callable[[], float]) -> Server:
    pool = Pool(tuple(f"{name}-key{n}" for n in range(keys)), PoolSettings(strategy), Rests(clock))  # type: ignore[arg-type]
    return Server(pool, quirks)
