"""What hermes.yaml may hold, as data: JSON Schema in the few keywords that `check` knows.

`writeOnly` marks what is never shown. The same data checks settings in a run, names the HERMES_* variables, gives
editors their completion and, through jsonschema, `config validate` its second opinion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

KEYWORDS = frozenset(
    ("type", "properties", "additionalProperties", "items", "enum", "required", "minimum", "maximum", "anyOf")
)
ANNOTATIONS = frozenset(
    ("description", "title", "default", "examples", "writeOnly", "deprecated", "$schema", "$id", "$comment")
)

_Schema = dict[str, Any]


def _section(description: str, **properties: _Schema) -> _Schema:
    return {"type": "object", "description": description, "additionalProperties": False, "properties": properties}


def _text(description: str, **more: Any) -> _Schema:
    return {"type": "string", "description": description, **more}


def _optional_text(description: str) -> _Schema:
    return {"type": ["string", "null"], "description": description}


def _choice(description: str, *words: str) -> _Schema:
    return {"type": "string", "enum": list(words), "description": description}


def _switch(description: str) -> _Schema:
    return {"type": "boolean", "description": description}


def _count(description: str, minimum: int = 0, **more: Any) -> _Schema:
    return {"type": "integer", "minimum": minimum, "description": description, **more}


def _limit(description: str, minimum: int = 1) -> _Schema:
    return {"type": ["integer", "null"], "minimum": minimum, "description": description}


def _amount(description: str, *, optional: bool = False, **more: Any) -> _Schema:
    kind = ["number", "null"] if optional else "number"
    return {"type": kind, "minimum": 0, "description": description, **more}


def _texts(description: str) -> _Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _shares(description: str) -> _Schema:
    return {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}, "description": description}


def _map(description: str, values: _Schema | bool, **more: Any) -> _Schema:
    return {"type": "object", "additionalProperties": values, "description": description, **more}


_KEY: _Schema = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}],
    "writeOnly": True,
    "description": "the key, as ${env:NAME} or ${file:path}; or a list of keys, used as `pool` says",
}

_PRICE = _amount("USD a million tokens", optional=True)

_MODEL = _section(
    "what is known of a model; wins over every catalogue",
    window_tokens=_limit("what its context holds"),
    output_tokens=_limit("the longest reply"),
    price_input=_PRICE,
    price_output=_PRICE,
    price_cache_read=_PRICE,
    price_cache_write=_PRICE,
    priced_to_tokens=_limit("longer prompts cost more"),
    images=_switch("it can be shown images"),
    pdf=_switch("it can be shown PDF files"),
    audio=_switch("it can be given audio"),
    reasoning=_switch("it thinks before it answers"),
    caching=_switch("the beginning of a prompt is cached"),
    tools=_switch("it can call tools"),
    schemas=_switch("it keeps to a JSON Schema"),
    note=_text("shown beside it"),
)

_PROVIDER = _section(
    "an endpoint, or changes to one of the catalogue",
    base_url=_optional_text("such as https://llm.example.com/v1"),
    api_mode=_optional_text("wire format: chat_completions, codex_responses, …; left out: detected"),
    api_key=_KEY,
    default_model=_optional_text("the model when only the provider is named"),
    headers=_map("sent with every request", {"type": "string"}, writeOnly=True),
    quirks=_map("how this endpoint differs, such as {drop_parameters: [temperature]}", True),
    defaults=_map("toolsets, prompt_budget_tokens, window_tokens, sections for its models", True),
    models=_map("facts by model name", _MODEL),
)

_RULE = _section(
    "the first that fits decides",
    decide=_choice("what happens", "ask", "allow", "deny"),
    tool=_optional_text("shell pattern for the tool's name; left out: every tool"),
    match=_optional_text("shell pattern for the command or path; left out: everything"),
)
_RULE["required"] = ["decide"]

_EFFORT: _Schema = {
    "type": ["string", "null"],
    "enum": ["none", "minimal", "low", "medium", "high", "xhigh", None],
    "description": "how long a reasoning model thinks",
}

_FALLBACK = _section(
    "a model with options of its own; those left out are those of model_options, but for context_window",
    model=_text("provider:model"),
    reasoning_effort=_EFFORT,
    context_window=_limit("tokens; wins over every catalogue"),
    max_output_tokens=_limit("cap for one reply"),
)
_FALLBACK["required"] = ["model"]

SCHEMA: _Schema = _section(
    "Hermes settings",
    version={"type": "integer", "enum": [1], "description": "of this file's format"},
    model=_text("auto, or provider:model such as openai:gpt-5 or ollama:qwen3:8b"),
    model_options=_section(
        "sent to the model; null leaves the provider's own default",
        temperature=_amount("sampling temperature", optional=True),
        max_output_tokens=_limit("cap for one reply"),
        reasoning_effort=_EFFORT,
        context_window=_limit("tokens; wins over every catalogue"),
    ),
    fallback={
        "type": "array",
        "items": {"anyOf": [_text("provider:model"), _FALLBACK]},
        "description": "models tried in this order when the model fails for good, as provider:model",
    },
    auxiliary=_section(
        "for summaries, titles, image descriptions", model=_optional_text("provider:model; null: the main model")
    ),
    providers=_map("endpoints by name", _PROVIDER),
    pool=_section(
        "several keys for one provider",
        strategy=_choice("which key is next", "fill_first", "round_robin", "least_used", "random"),
        cooldown_s=_amount("for a key that was refused"),
    ),
    request=_section(
        "one call of a model",
        connect_timeout_s=_amount("until the server is reached"),
        first_token_timeout_s=_amount("until the reply begins; null: by the target", optional=True),
        stall_timeout_s=_amount("no bytes for so long; null: by the target", optional=True),
        attempts=_count("for one target, before the next of `fallback`", 1),
    ),
    tools=_section(
        "what the model may call",
        toolsets=_texts("entry points in hermes.tools, beside the kernel tools; [] is only the kernel tools"),
        disable=_texts("single tools, by name"),
        replace=_map("{read_file: my_plugin}: a plugin takes the place of a tool", {"type": "string"}),
        workers=_count("calls that may run at once", 1, maximum=256),
        deadline_s=_amount("for one call, unless the tool declares its own"),
        result_max_chars=_count("longer results go to a file that the model can read", 100),
        search=_choice("hold schemas back when they fill a tenth of the window", "auto", "always", "never"),
    ),
    delegate=_section(
        "children of delegate_task",
        iterations=_count("of each child", 1),
        max_children=_count("of one call", 1),
        max_depth=_count("of children's children"),
    ),
    memory=_section(
        "what is remembered between sessions",
        backend=_text("an entry point in hermes.memory; none switches memory off"),
        memory_max_chars=_count("of the agent's own notes"),
        user_max_chars=_count("of what is known of the user"),
        ask_before_write=_switch("a person confirms each change"),
    ),
    prompt=_section(
        "the system prompt",
        identity=_optional_text("takes the place of the default identity; or ${file:SOUL.md}"),
        append=_optional_text("text at the end"),
        sections=_texts("in this order; entry points in hermes.prompt; `installed`: every other"),
        context_files=_texts("names looked for upward from the working directory"),
        section_max_chars=_count("longer sections are cut, visibly", 100),
    ),
    context=_section(
        "the context window",
        engine=_text("default, or an entry point in hermes.context"),
        compress_at=_amount("share of the window", maximum=1),
        warn_at=_shares("of the way to compress_at"),
        keep_first_messages=_count("never compressed"),
        keep_last_share=_amount("of the window, never compressed", maximum=1),
        prompt_cache=_choice("cache marks where a provider wants them", "auto", "never"),
        prompt_cache_ttl=_choice("how long marked prompts are kept; 1h costs more to write", "5m", "1h"),
    ),
    limits=_section(
        "for one run and all of its children together; null: no limit",
        iterations=_limit("calls of the model in one turn"),
        max_seconds=_amount("of one turn", optional=True),
        max_tokens=_limit("of one turn, in and out"),
        max_cost_usd=_amount("of one turn", optional=True),
        warn_model_at=_shares("tell the model to converge; [] never tells it"),
        stop_after_failing_calls=_count("the same call failing in a row", 1),
    ),
    approval=_section(
        "what a person is asked about",
        mode=_choice("ask is denied when there is no one to ask", "ask", "allow", "deny"),
        rules={"type": "array", "items": _RULE, "description": "the first that fits decides"},
        protect_paths=_texts("never read or written without asking"),
        sandbox=_choice("for commands; bubblewrap needs Linux", "none", "bubblewrap"),
        network=_switch("for sandboxed commands"),
    ),
    checkpoints=_section(
        "copies to go back to",
        enabled=_switch("before writes and destructive commands; needs git"),
        keep=_count("how many", 1),
    ),
    sessions=_section(
        "where conversations are kept",
        store=_text("an entry point in hermes.stores"),
        path=_optional_text("null: in `hermes sessions path`"),
        sync=_choice("full survives loss of power, normal the death of the process", "full", "normal"),
        outcomes=_switch("also record every outcome of a turn, so that it can be replayed"),
        busy=_choice("what a message does that is sent while a turn runs", "steer", "queue", "interrupt"),
        stop_when_failing=_switch("end the run (exit 12) when nothing can be stored, instead of going on in memory"),
        keep_days=_limit("null keeps everything"),
    ),
    plugins=_section(
        "observers, and rules for all plugins",
        enabled=_texts("entry points in hermes.plugins; `installed`: every one"),
        disabled=_texts("never imported, whatever names them"),
        required=_texts("hermes run stops (exit 11) when one is missing or fails"),
        order=_texts("hooks are called in name order; names given here come first"),
        isolation=_choice("process: tool functions run in a child process", "none", "process"),
        hook_deadline_s=_amount("for one call of a hook"),
        settings=_map("by plugin name; each plugin brings the schema", _map("of one plugin", True)),
    ),
    display=_section(
        "what is shown",
        color=_choice("of the terminal", "auto", "always", "never"),
        show_reasoning=_switch("print the model's thinking"),
        show_tools=_choice("how much of each call", "none", "line", "full"),
        stream=_switch("print text as it comes"),
    ),
    log=_section(
        "the log file",
        level=_choice("least severity", "debug", "info", "warning", "error"),
        path=_optional_text("null: in the home of hermes"),
    ),
)


def leaf_schemas(
    schema: Mapping[str, Any] = SCHEMA, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], _Schema]]:
    """Every key that holds a value of its own rather than a section, in the order of the file."""
    for name, child in schema["properties"].items():
        if "properties" in child:
            yield from leaf_schemas(child, (*path, name))
        else:
            yield (*path, name), child


def variables() -> dict[str, tuple[tuple[str, ...], _Schema]]:
    """The HERMES_* variables: name → key and schema. Mappings and lists of mappings have none.

    `version` has none either: images set HERMES_VERSION for their own ends.
    """
    found = {}
    for path, schema in leaf_schemas():
        is_single = schema.get("type") != "object" and schema.get("items", {}).get("type") != "object"
        if is_single and path != ("version",):
            found["HERMES_" + "_".join(path).upper()] = (path, schema)
    return found


def unsupported(schema: Any, where: str = "") -> list[str]:
    """The keywords in a plugin's schema that our checker does not know, each as `properties.x.pattern`."""
    if not isinstance(schema, Mapping):
        return [] if isinstance(schema, bool) else [f"{where or 'the schema'} is not an object"]
    found = [f"{where}.{name}".lstrip(".") for name in schema if name not in KEYWORDS | ANNOTATIONS]
    for name, child in schema.get("properties", {}).items():
        found += unsupported(child, f"{where}.properties.{name}".lstrip("."))
    for name in ("items", "additionalProperties"):
        if name in schema:
            found += unsupported(schema[name], f"{where}.{name}".lstrip("."))
    for index, child in enumerate(schema.get("anyOf", ())):
        found += unsupported(child, f"{where}.anyOf[{index}]".lstrip("."))
    return found


_TYPES = frozenset(("string", "integer", "number", "boolean", "array", "object", "null"))


def _is_type(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and bool(names) and all(isinstance(n, str) and n in _TYPES for n in names)


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "properties": lambda value: isinstance(value, dict) and not any(malformed(child) for child in value.values()),
    "additionalProperties": lambda value: isinstance(value, bool) or not malformed(value),
    "items": lambda value: not malformed(value),
    "anyOf": lambda value: isinstance(value, list) and bool(value) and not any(map(malformed, value)),
    "enum": lambda value: isinstance(value, list),
    "required": lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
    "minimum": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "maximum": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}


def malformed(schema: Any) -> str:
    """Why a plugin's schema cannot be checked with; "" when it can."""
    if not isinstance(schema, dict):
        return "it is not a JSON object"
    wrong = [name for name, is_right in _SHAPES.items() if name in schema and not is_right(schema[name])]
    return f"{', '.join(wrong)}: not as JSON Schema wants it" if wrong else ""
