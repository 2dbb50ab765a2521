"""`@tool`: what a signature and a docstring become, and that any output becomes a result."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.kernel.arguments import coerce
from hermes.kernel.errors import PluginError, ToolError
from hermes.kernel.messages import Image, Text
from hermes.kernel.roles import Resources, Tool, ToolContext, ToolReturn
from hermes.kernel.toolspec import call_tool, read_docstring, tool


class Never:
    """A turn that nobody stops, until `stop` is called."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []
        self.stopped = False

    def __call__(self) -> bool:
        return self.stopped

    def wait(self, timeout_s: float) -> bool:
        return self.stopped

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)


class NoSearch:
    def search(self, query: str, *, limit: int, exclude: str | None = None) -> Sequence[Any]:
        return ()

    def messages(self, session_id: str) -> Sequence[Any]:
        return ()

    def recent(self, *, limit: int, exclude: str | None = None) -> Sequence[Any]:
        return ()


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext(
        "s1",
        "c1",
        tmp_path,
        tmp_path / "home",
        Never(),
        lambda _: None,
        lambda *_: None,
        lambda _: (),
        NoSearch(),
        {},
        {},
    )


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(TypedDict, total=False):
    name: str


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Model(pydantic.BaseModel):
    point: dict[str, int]
    colour: Colour = Colour.RED


@tool(reads="path:{path}", idempotent=True, toolset="demo", deadline_s=5)
def look(
    path: str,
    count: int = 3,
    ratio: float = 0.5,
    deep: bool = False,
    names: list[str] | None = None,
    mode: Literal["a", "b"] = "a",
    context: ToolContext | None = None,
) -> str:
    """Look at a file,
    closely.

    More about it.

    Args:
        path: where it is,
            relative to here
        count (int): how often: at most 3
        names: Names: to look for

    Returns:
        what it saw
    """
    return f"{path} {count} {ratio} {deep} {names} {mode} {context.session_id if context else ''}"


def test_a_signature_and_its_docstring_become_the_schema() -> None:
    assert look.name == "look"
    assert look.description == "Look at a file,\nclosely.\n\nMore about it."
    assert (look.reads, look.writes, look.idempotent, look.deadline_s) == (("path:{path}",), (), True, 5)
    assert look.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "where it is, relative to here"},
            "count": {"type": "integer", "default": 3, "description": "how often: at most 3"},
            "ratio": {"type": "number", "default": 0.5},
            "deep": {"type": "boolean", "default": False},
            "names": {"type": "array", "items": {"type": "string"}, "description": "Names: to look for"},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        },
        "required": ["path"],
    }
    json.dumps(look.parameters)


def test_the_context_is_handed_over_and_not_shown_to_the_model(context: ToolContext) -> None:
    assert call_tool(look, {"path": "x"}, context).parts == (Text("x 3 0.5 False None a s1"),)

    @tool
    def other(ctx: ToolContext) -> str:
        return ctx.session_id

    assert other.parameters == {"type": "object", "properties": {}}
    assert call_tool(other, {}, context).parts == (Text("s1"),)


def test_sphinx_fields_describe_parameters_too() -> None:
    text = "Add.\n\nTwice.\n\n:param x: the one\n    and more\n:param int y: the other\n:returns: z\n:rtype: int"
    assert read_docstring(text) == ("Add.\n\nTwice.", {"x": "the one and more", "y": "the other"})


def test_classes_are_described_and_come_back_as_what_they_are(context: ToolContext) -> None:
    seen: list[Any] = []

    @tool
    def take(
        colour: Colour, point: Point, points: list[Point], place: Place, file: Path, model: Model, either: Point | int,
        note: Annotated[str, "free text"], both: tuple[int, str], unique: set[int],
    ) -> None:  # fmt: skip
        seen.extend([colour, point, points, place, file, model, either, note, both, unique])

    properties = take.parameters["properties"]
    assert properties["colour"] == {"type": "string", "enum": ["red", "blue"]}
    assert properties["point"]["required"] == ["x"]
    assert properties["place"] == {"type": "object", "properties": {"name": {"type": "string"}}}
    assert properties["note"] == {"type": "string", "description": "free text"}
    assert "Colour" in take.parameters["$defs"]
    arguments = {
        "colour": "red", "point": {"x": 1}, "points": [{"x": 2, "y": 3.0}], "place": {"name": "n"}, "file": "a/b",
        "model": {"point": {"a": 1}, "colour": "blue"}, "either": {"x": 9}, "note": "n", "both": [1, "a"],
        "unique": [1],
    }  # fmt: skip
    assert coerce(arguments, take.parameters) == (arguments, None)
    call_tool(take, arguments, context)
    assert seen == [
        Colour.RED, Point(1), [Point(2, 3.0)], {"name": "n"}, Path("a/b"), Model(point={"a": 1}, colour=Colour.BLUE),
        Point(9), "n", (1, "a"), {1},
    ]  # fmt: skip
    with pytest.raises(ToolError, match="colour"):
        call_tool(take, arguments | {"colour": "green"}, context)


def test_what_cannot_be_described_is_refused_by_name_unless_a_schema_is_given() -> None:
    def bad(when: complex) -> None: ...
    def positional(x: int, /) -> None: ...
    def unknown(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function, words in ((bad, "when"), (positional, "x cannot be given by name"), (unknown, "Nowhere")):
        with pytest.raises(PluginError, match=words):
            tool(function)
    assert tool(parameters={"type": "object"})(bad).parameters == {"type": "object"}
    with pytest.raises(PluginError, match="name"):
        tool(name="no blanks allowed")(bad)


def test_a_context_that_only_type_checkers_import_does_not_spoil_the_schema() -> None:
    def late(path: str, context: Elsewhere) -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    assert tool(late).parameters["properties"] == {"path": {"type": "string"}}


def test_an_async_tool_runs_in_the_thread_of_its_call(context: ToolContext) -> None:
    @tool
    async def slow(x: int) -> dict[str, int]:
        """Wait."""
        await asyncio.sleep(0)
        return {"x": x}

    assert call_tool(slow, {"x": 1}, context).parts == (Text('{"x": 1}'),)


def test_an_async_tool_is_cancelled_with_the_turn(context: ToolContext) -> None:
    cancelled = context.cancelled
    assert isinstance(cancelled, Never)

    @tool
    async def forever() -> None:
        for callback in cancelled.callbacks:
            callback()
        await asyncio.Event().wait()

    with pytest.raises(ToolError, match="stopped"):
        call_tool(forever, {}, context)
    assert cancelled.callbacks == []


def test_arguments_that_the_function_does_not_have_are_named(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="no argument file; it takes path"):
        call_tool(look, {"path": "x", "file": "y"}, context)
    with pytest.raises(ToolError, match="needs the argument path"):
        call_tool(look, {}, context)

    @tool
    def anything(**more: Any) -> Mapping[str, Any]:
        return more

    assert call_tool(anything, {"a": 1}, context).parts == (Text('{"a": 1}'),)


def giving(output: Any) -> Tool:
    return Tool("give", "d", {"type": "object"}, run=lambda: output, resources=lambda _: Resources())


@pytest.mark.parametrize(
    ("output", "parts"),
    [
        (None, (Text("(no output)"),)),
        ("", (Text("(no output)"),)),
        (" \n", (Text("(no output)"),)),
        ("x\ud83c\udf78\ud800", (Text("x\U0001f378\ufffd"),)),
        ({"a": "ü"}, (Text('{"a": "ü"}'),)),
        ([], (Text("[]"),)),
        (False, (Text("false"),)),
        (Path("a"), (Text("a"),)),
        (Point(1), (Text('{"x": 1, "y": 0.0}'),)),
        (Text("a"), (Text("a"),)),
        ([Text("a"), Text(" "), Image("image/png", "eA==")], (Text("a"), Image("image/png", "eA=="))),
        (ToolReturn(""), (Text("(no output)"),)),
        (ToolReturn((Text("a"),), state={"k": 1}), (Text("a"),)),
        (ToolReturn(()), (Text("(no output)"),)),
    ],
)
def test_any_output_becomes_parts_that_are_never_blank(
    output: Any, parts: tuple[Any, ...], context: ToolContext
) -> None:
    assert call_tool(giving(output), {}, context).parts == parts


def test_state_and_failure_of_a_tool_return_are_kept(context: ToolContext) -> None:
    got = call_tool(giving(ToolReturn("bad", state={"k": 1}, failed=True)), {}, context)
    assert got == ToolReturn((Text("bad"),), {"k": 1}, True)


def test_output_that_is_neither_text_nor_json_is_an_error_that_says_the_tool_ran(context: ToolContext) -> None:
    loop: list[Any] = []
    loop.append(loop)
    for output in (object(), b"x", {1: object()}, loop):
        with pytest.raises(ToolError, match="give ran, but gave back"):
            call_tool(giving(output), {}, context)


@given(st.text())
def test_reading_a_docstring_never_fails(text: str) -> None:
    read_docstring(text)
