"""What models that speak the Messages API take: output limits and ways of thinking, by family, as data."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

from hermes.kernel.providers import Target

NATIVE_HOST = "api.anthropic.com"

Way = Literal["adaptive", "budget", "none"]
"""How a model is told to think: it decides itself, it gets a budget of tokens, or it cannot."""
Off = Literal["disabled", "between_tools", ""]
"""The `thinking.type` that keeps a model from thinking first; "" when nothing does."""


@dataclass(frozen=True, slots=True)
class Family:
    """Models that take the same parameters. `model` is a pattern in lower case, with hyphens for dots.

    `efforts`: the levels of `output_config.effort`, lowest first. `thinks_unasked`: it thinks when nothing is said.
    `samples`: it takes a temperature. `binds`: it refuses thinking when anything before it has changed since.
    """

    model: str
    output_tokens: int
    way: Way
    efforts: tuple[str, ...] = ()
    thinks_unasked: bool = False
    off: Off = "disabled"
    samples: bool = True
    binds: bool = False

    @property
    def is_claude(self) -> bool:
        return "claude" in self.model


_ALL = ("low", "medium", "high", "xhigh", "max")
_NO_XHIGH = ("low", "medium", "high", "max")
_THREE = ("low", "medium", "high")


def _always(model: str, off: Off = "", *, binds: bool = False) -> Family:
    """A Claude since 5: adaptive and on by default, without sampling parameters."""
    return Family(model, 128_000, "adaptive", _ALL, True, off, samples=False, binds=binds)


FAMILIES: tuple[Family, ...] = (
    _always("*claude-fable-5-*", binds=True),
    _always("*claude-mythos-5-*", binds=True),
    _always("*claude-fable-5*"),
    _always("*claude-mythos-5*"),
    _always("*claude-opus-5-5*", binds=True),
    _always("*claude-sonnet-5-5*", "between_tools", binds=True),
    _always("*claude-haiku-5-5*", "disabled", binds=True),
    _always("*claude-opus-5*", "disabled"),
    _always("*claude-sonnet-5*", "disabled"),
    Family("*claude-mythos*", 128_000, "adaptive", _NO_XHIGH, True, "", samples=False),
    Family("*claude-opus-4-[78]*", 128_000, "adaptive", _ALL, samples=False),
    Family("*claude-opus-4-6*", 128_000, "adaptive", _NO_XHIGH),
    Family("*claude-sonnet-4-6*", 64_000, "adaptive", _NO_XHIGH),
    Family("*claude-opus-4-5*", 64_000, "budget", _THREE),
    Family("*claude-opus-4*", 32_000, "budget"),
    Family("*claude-sonnet-4*", 64_000, "budget"),
    Family("*claude-haiku-4*", 64_000, "budget"),
    Family("*claude-3-7*", 64_000, "budget"),
    Family("*claude-3-5*", 8_192, "none"),
    Family("*claude-3*", 4_096, "none"),
    _always("*claude*", binds=True),  # newer than this table
    Family("*kimi*", 128_000, "adaptive", _THREE),
    Family("*minimax*", 131_072, "budget"),
    Family("*qwen3*", 65_536, "budget"),
    Family("*deepseek*", 128_000, "budget", ("high", "max")),
    Family("*", 128_000, "budget"),
)
"""Read from the top, first fit wins. Claude: the pages on models, thinking, effort and preserved thinking of
platform.claude.com, November 2026; others: runtime behaviour specification 3.3 and DeepSeek's page on its Anthropic
API, November 2026."""


def family_of(target: Target) -> Family:
    return _family(target.model)


@lru_cache(maxsize=64)
def _family(model: str) -> Family:
    name = model.lower().replace(".", "-")
    return next(family for family in FAMILIES if fnmatchcase(name, family.model))


def is_native(target: Target) -> bool:
    """Whether Anthropic itself answers: by the host, or a gateway in front of it that the user declared as such."""
    return urlsplit(target.base_url).hostname == NATIVE_HOST or bool(target.quirk("anthropic_native"))


def model_id(target: Target) -> str:
    """The model as it is asked for: Anthropic writes Claude's versions with hyphens, everybody else keeps dots."""
    model = target.model
    return model.replace(".", "-") if is_native(target) and model.lower().startswith("claude") else model
