"""Make a tool of a typed function: `@tool`, its JSON Schema from the signature, and one way to call it.

@tool(reads="path:{path}", idempotent=True)
def count_lines(path: str, context: ToolContext) -> int:
    \"""Count the lines of a file.

    Args:
        path: the file, relative to the working directory
    \"""
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypedDict, Unpack, get_args, overload

from hermes.kernel.errors import PluginError, ToolError
from hermes.kernel.messages import Image, Json, Text, clean
from hermes.kernel.roles import Finding, Resources, Tool, ToolContext, ToolReturn
from hermes.kernel.typeschema import CannotDescribe, annotations_of, convert, needs_conversion, schema_of

NO_OUTPUT = "(no output)"
"""What the model reads when a tool gave nothing: a result is never empty."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolOptions(TypedDict, total=False):
    """What `@tool` may be told; the fields of `Tool`. A single text stands for a tuple of one."""

    name: str
    description: str
    parameters: Mapping[str, Json]
    toolset: str
    reads: str | Sequence[str]
    writes: str | Sequence[str]
    resources: Callable[[Mapping[str, Json]], Resources]
    exclusive: bool
    idempotent: bool
    deadline_s: float | None
    assess: Callable[[Mapping[str, Json], ToolContext], Finding | None]
    available: Callable[[], bool]
    result_max_chars: int | None


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a function; use it bare or with the fields of `Tool` as options.

    Name, description and schema come from the function where no option gives them. The parameter that is annotated
    `ToolContext`, else the one named `context`, gets the call's context and is not in the schema. Raises PluginError,
    naming function and parameter, where the signature cannot be described.
    """
    if function is None:
        return lambda decorated: _make(decorated, options)
    return _make(function, options)


def _make(function: Callable[..., Any], options: ToolOptions) -> Tool:
    fields: dict[str, Any] = dict(options)
    where = f"tool {fields.get('name') or getattr(function, '__name__', function)}"
    if not callable(function):
        raise PluginError(f"{where}: @tool belongs on a function, not on {type(function).__name__}")
    about, parameter_texts = read_docstring(inspect.getdoc(function) or "")
    hints = annotations_of(function)
    fields.setdefault("name", getattr(function, "__name__", ""))
    if not _NAME.fullmatch(fields["name"]):
        raise PluginError(f"{where}: a name is 1 to 64 letters, digits, _ and -; give another with @tool(name=…)")
    fields["description"] = fields.get("description") or about or fields["name"].replace("_", " ")
    for key in ("reads", "writes"):
        given = fields.get(key, ())
        fields[key] = (given,) if isinstance(given, str) else tuple(given)
    try:
        derived = _parameters(function, hints, parameter_texts)
    except CannotDescribe as problem:
        if "parameters" not in fields:
            raise PluginError(f"{where}: {problem}; give the schema with @tool(parameters=…)") from None
        derived = {}
    fields.setdefault("parameters", derived)
    return Tool(run=_typed(function, hints), **fields)


def _parameters(function: Callable[..., Any], hints: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Json]:
    properties: dict[str, Json] = {}
    required: list[str] = []
    definitions: dict[str, Json] = {}
    contexts = context_parameters(function, hints)
    for name, parameter in inspect.signature(function).parameters.items():
        if name in contexts or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise CannotDescribe(f"parameter {name} cannot be given by name")
        has_default = parameter.default is not parameter.empty
        try:
            schema = schema_of(hints.get(name, Any), definitions, optional=has_default)
        except CannotDescribe as problem:
            raise CannotDescribe(f"parameter {name}: {problem}") from None
        if name in texts and "description" not in schema:
            schema["description"] = texts[name]
        if not has_default:
            required.append(name)
        elif isinstance(parameter.default, (str, int, float)):
            schema["default"] = getattr(parameter.default, "value", parameter.default)
        properties[name] = schema
    out: dict[str, Json] = {"type": "object", "properties": properties}
    if required:
        out["required"] = required
    if definitions:
        out["$defs"] = definitions
    return out


def context_parameters(function: Callable[..., Any], hints: Mapping[str, Any]) -> set[str]:
    """The parameters that take the call's context, not an argument of the model.

    Those annotated `ToolContext`; without one, that named `context` (else it is an argument like any other).
    """
    names = inspect.signature(function).parameters.keys()
    annotated = {name for name in names if hints.get(name) is ToolContext or hints.get(name) == "ToolContext"}
    annotated |= {name for name in names if ToolContext in get_args(hints.get(name))}  # ToolContext | None
    return annotated or {"context"} & names


def _typed(function: Callable[..., Any], hints: Mapping[str, Any]) -> Callable[..., Any]:
    """Hand dataclasses, enums and paths over as what the signature says; a function of plain JSON is left as it is."""
    wanted = {name: hint for name, hint in hints.items() if name != "return" and needs_conversion(hint)}
    if not wanted:
        return function

    @functools.wraps(function)
    def run(**arguments: Any) -> Any:
        for name, hint in wanted.items():
            if name in arguments:
                try:
                    arguments[name] = convert(arguments[name], hint)
                except (TypeError, ValueError, KeyError) as problem:
                    raise ToolError(f"wrong argument {name}: {problem}") from problem
        return function(**arguments)

    return run


_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns?|Raises|Yields|Examples?|Notes?):\s*$")
_ARGUMENTS = ("Args", "Arguments", "Parameters")
_ARGUMENT = re.compile(r"^\s+\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_FIELD = re.compile(r"^:(?:param(?:\s+[^:]*?)?\s+(\w+)|returns?|rtype|type\b[^:]*|raises?\b[^:]*):\s*(.*)$")


def read_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """Divide a docstring into what the tool does and what its parameters mean (Google `Args:`, or `:param x:`)."""
    about: list[str] = []
    texts: dict[str, str] = {}
    section = current = ""
    names_at = 0  # how far the names of an Args section are indented; what is deeper continues a text
    for line in docstring.splitlines():
        indent = len(line) - len(line.lstrip())
        if heading := _SECTION.match(line):
            section, current = heading.group(1), ""
        elif found := _FIELD.match(line):
            section, current = "fields", found.group(1) or ""
            if current:
                texts[current] = found.group(2)
        elif (found := _ARGUMENT.match(line)) and section in _ARGUMENTS and (not current or indent <= names_at):
            current, names_at = found.group(1), indent
            texts[current] = found.group(2)
        elif current and indent:
            texts[current] = f"{texts[current]} {line.strip()}".strip()
        elif not section or (line and not indent):
            section = current = ""
            about.append(line)
    return "\n".join(about).strip(), texts


# ---- Calling --------------------------------------------------------------------------------------------------------


def call_tool(tool: Tool, arguments: Mapping[str, Json], context: ToolContext) -> ToolReturn:
    """Call a tool in this thread and make of its output a ToolReturn whose parts are a tuple and never blank.

    An async tool runs on an event loop of its own here, cancelled with the turn. Raises what the tool raises, and
    ToolError for arguments that it does not have and output that is neither text nor JSON.
    """
    output = tool.run(**_bound(tool, arguments, context))
    if inspect.isawaitable(output):
        import asyncio  # costs a third of a start, and only async tools need it

        output = asyncio.run(_supervised(output, context))
    return normalised(tool.name, output)


def _bound(tool: Tool, arguments: Mapping[str, Json], context: ToolContext) -> dict[str, Any]:
    try:
        parameters = inspect.signature(tool.run).parameters
    except (TypeError, ValueError):  # a callable written in C has none
        return dict(arguments)
    contexts = context_parameters(tool.run, annotations_of(tool.run))
    given: dict[str, Any] = dict(arguments)
    known = [p.name for p in parameters.values() if p.name not in contexts and p.kind is not p.VAR_KEYWORD]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()) and (unknown := given.keys() - set(known)):
        raise ToolError(f"{tool.name} has no argument {', '.join(sorted(unknown))}; it takes {', '.join(known)}")
    if missing := [n for n in known if n not in given and parameters[n].default is inspect.Parameter.empty]:
        raise ToolError(f"{tool.name} needs the argument {', '.join(missing)}")
    return given | dict.fromkeys(contexts, context)


async def _supervised(output: Awaitable[Any], context: ToolContext) -> Any:
    import asyncio

    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(output)

    def cancel() -> None:
        with contextlib.suppress(RuntimeError):  # the loop closed at this very moment: nothing is left to cancel
            loop.call_soon_threadsafe(task.cancel)

    forget = context.cancelled.on_cancel(cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise ToolError("stopped before it was done") from None
    finally:
        forget()


def normalised(name: str, output: Any) -> ToolReturn:
    """Make one ToolReturn of anything a tool may give back."""
    if isinstance(output, ToolReturn):
        return dataclasses.replace(output, parts=_parts(name, output.parts))
    return ToolReturn(_parts(name, output))


def _parts(name: str, output: Any) -> tuple[Text | Image, ...]:
    if isinstance(output, (Text, Image)):
        output = (output,)
    if isinstance(output, Sequence) and output and all(isinstance(p, (Text, Image)) for p in output):
        kept = tuple(
            dataclasses.replace(p, text=clean(p.text)) if isinstance(p, Text) else p
            for p in output
            if isinstance(p, Image) or p.text.strip()
        )
        return kept or (Text(NO_OUTPUT),)
    text = (
        ""
        if output is None or output == ()
        else str(output)
        if isinstance(output, (str, PurePath))
        else _json_text(name, output)
    )
    return (Text(clean(text) if text.strip() else NO_OUTPUT),)


def _json_text(name: str, output: Any) -> str:
    try:
        return json.dumps(output, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as problem:
        raise ToolError(
            f"{name} ran, but gave back {type(output).__name__}, which is neither text nor JSON ({problem})"
        ) from problem


def _plain(value: Any) -> Any:
    """Turn what is not JSON, but has an obvious form in it, into JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    raise TypeError(f"{type(value).__name__} has no JSON form")
