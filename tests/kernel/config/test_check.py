"""Our checker, alone and against jsonschema on generated documents."""

from __future__ import annotations

import random
from typing import Any

import jsonschema
import pytest

from hermes.kernel.config.check import check_value
from hermes.kernel.config.schema import (
    ANNOTATIONS,
    KEYWORDS,
    SCHEMA,
    leaf_schemas,
    malformed,
    unsupported,
    variables,
)

SCALARS = (None, True, False, -3, 0, 1, 5, 400, 2.0, 0.5, -1.5, "ask", "deny", "auto", "none", "", "x")
KINDS = ("string", "integer", "number", "boolean", "null", "array", "object")


def any_value(rng: random.Random, depth: int = 2) -> Any:
    kind = rng.randrange(6)
    if depth and kind == 0:
        return [any_value(rng, depth - 1) for _ in range(rng.randrange(3))]
    if depth and kind == 1:
        return {rng.choice("abcd"): any_value(rng, depth - 1) for _ in range(rng.randrange(3))}
    return rng.choice(SCALARS)


def document(rng: random.Random, schema: Any) -> Any:
    """A value that fits the schema mostly, with a mistake here and there."""
    if not isinstance(schema, dict) or rng.randrange(12) == 0:
        return any_value(rng)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return document(rng, rng.choice(schema["anyOf"]))
    if "properties" in schema or "additionalProperties" in schema:
        known = schema.get("properties", {})
        out = {key: document(rng, known[key]) for key in rng.sample(sorted(known), rng.randint(0, min(4, len(known))))}
        if rng.randrange(6) == 0 or not known:
            out[rng.choice(("other", "iterations", "a.b"))] = document(rng, schema.get("additionalProperties"))
        return out
    if "items" in schema:
        return [document(rng, schema["items"]) for _ in range(rng.randrange(3))]
    kind = schema.get("type")
    fitting = [
        value for value in SCALARS if kind is None or jsonschema.Draft202012Validator({"type": kind}).is_valid(value)
    ]
    return rng.choice(fitting or SCALARS)


def any_schema(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """Any schema in the keywords that we know."""
    out: dict[str, Any] = {}
    if rng.randrange(2):
        out["type"] = rng.choice(KINDS) if rng.randrange(2) else rng.sample(KINDS, rng.randint(1, 3))
    if rng.randrange(4) == 0:
        out["enum"] = rng.sample(SCALARS, rng.randint(1, 4))
    if rng.randrange(4) == 0:
        out["minimum"] = rng.randint(-2, 2)
    if rng.randrange(4) == 0:
        out["maximum"] = rng.randint(-1, 100)
    if depth and rng.randrange(2):
        out["properties"] = {rng.choice("abcd"): any_schema(rng, depth - 1) for _ in range(rng.randrange(3))}
        out["additionalProperties"] = rng.choice((True, False, any_schema(rng, depth - 1)))
        out["required"] = rng.sample("abcd", rng.randrange(3))
    if depth and rng.randrange(3) == 0:
        out["items"] = any_schema(rng, depth - 1)
    if depth and rng.randrange(4) == 0:
        out["anyOf"] = [any_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    return out


def test_the_checkers_agree_on_settings() -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    seed, verdicts = random.randrange(2**32), set()
    rng = random.Random(seed)
    for number in range(1500):
        value = document(rng, SCHEMA)
        verdict = validator.is_valid(value)
        verdicts.add(verdict)
        assert (not check_value(value, SCHEMA)) == verdict, f"seed {seed}, document {number}: {value!r}"
    assert verdicts == {True, False}


def test_the_checkers_agree_on_any_schema_of_a_plugin() -> None:
    seed, verdicts = random.randrange(2**32), set()
    rng = random.Random(seed)
    for number in range(1500):
        schema = any_schema(rng)
        value = document(rng, schema)
        verdict = jsonschema.Draft202012Validator(schema).is_valid(value)
        verdicts.add(verdict)
        assert (not check_value(value, schema)) == verdict, f"seed {seed}, document {number}: {value!r} of {schema!r}"
    assert verdicts == {True, False}


def test_they_find_the_same_places() -> None:
    bad = {
        "model": 5,
        "limits": {"iterations": 0, "max_tokens": "x"},
        "tools": {"workers": 300, "search": "sometimes", "toolsets": ["a", 5]},
        "approval": {"rules": [{"tool": "x"}, {"decide": "alow"}]},
        "memory": {"ask_before_write": 1},
        "context": {"warn_at": [0.5, 2]},
    }
    found = {tuple(error.absolute_path) for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(bad)}
    assert set(check_value(bad, SCHEMA)) == found


def test_the_schema_is_one_and_uses_only_what_we_know() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert unsupported(SCHEMA) == []
    assert malformed(SCHEMA) == ""
    assert unsupported({"properties": {"a": {"pattern": "x"}}, "if": {}}) == ["if", "properties.a.pattern"]
    assert not KEYWORDS & ANNOTATIONS


def test_every_key_is_described() -> None:
    assert [path for path, schema in leaf_schemas() if not schema.get("description")] == []


def test_no_two_keys_share_a_variable() -> None:
    names = ["_".join(path).upper() for path, _ in leaf_schemas()]
    assert len(names) == len(set(names))
    assert "HERMES_LIMITS_ITERATIONS" in variables()
    assert not {"HERMES_HOME", "HERMES_VERSION", "HERMES_STRICT_PLUGINS"} & set(variables())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("modle: x", "given.yaml:1:1: modle: unknown key, did you mean model"),
        ("limits: {iteration: 4}", "given.yaml:1:10: limits.iteration: unknown key, did you mean limits.iterations"),
        ("iterations: 4", "given.yaml:1:1: iterations: unknown key, did you mean limits.iterations"),
        ("providers: {w: {base_ulr: y}}",
         "given.yaml:1:17: providers.w.base_ulr: unknown key, did you mean providers.w.base_url"),
        ("limits: 5", "given.yaml:1:9: limits: must be a mapping, not 5"),
        ("fallback: a", "given.yaml:1:11: fallback: must be a list, not 'a'; did you mean [a]"),
        ("limits: {iterations: 08080}",
         "given.yaml:1:22: limits.iterations: must be a whole number or null, not '08080'; write 8080"),
        ("limits: {iterations: '5'}",
         "given.yaml:1:22: limits.iterations: must be a whole number or null, not '5'; remove the quotes"),
        ("limits: {iterations: 0}", "given.yaml:1:22: limits.iterations: 0 is too small; at least 1"),
        ("context: {compress_at: 75}", "given.yaml:1:24: context.compress_at: 75 is too large; at most 1"),
        ("pool: {strategy: fil_first}",
         "given.yaml:1:18: pool.strategy: 'fil_first' is not one of fill_first, round_robin, least_used, random; "
         "did you mean fill_first"),
        ("approval: {rules: [{tool: x}]}", "given.yaml:1:20: approval.rules[0]: decide is missing"),
        ("version: 2", "given.yaml:1:10: version: 2 is not one of 1"),
        ("model: null", "given.yaml:1:8: model: must be text, not null; if the word is meant, put it in quotes"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place_and_a_way_out(desk: Any, text: str, problem: str) -> None:
    assert desk.problems(f"{text}\n") == [problem]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(desk: Any) -> None:
    text = (
        "modle: x\nlimits:\n  iterations: a\n  max_tokens: b\n  max_tokens: 5\ntools: {workers: 0}\nmodel: ${env:U}\n"
    )
    places = [line.split(": ")[:2] for line in desk.problems(text)]
    assert places == [
        ["given.yaml:1:1", "modle"],
        ["given.yaml:3:15", "limits.iterations"],
        ["given.yaml:4:15", "limits.max_tokens"],
        ["given.yaml:5:3", "limits.max_tokens"],
        ["given.yaml:6:18", "tools.workers"],
        ["given.yaml:7:8", "model"],
    ]


@pytest.mark.parametrize("word", ["off", "on", "no", "OFF", '"off"', "nonsense", "False", "true", "null"])
def test_B117_an_approval_mode_that_is_not_one_is_an_error(desk: Any, word: str) -> None:
    (problem,) = desk.problems(f"approval: {{mode: {word}}}\n")
    assert problem.startswith("given.yaml:1:18: approval.mode: ")


@pytest.mark.parametrize("word", ['"false"', "0", '""', '" No "', "off", "1", "yes", "maybe"])
def test_B116_a_switch_in_a_file_is_true_or_false_and_nothing_else(desk: Any, word: str) -> None:
    (problem,) = desk.problems(f"memory: {{ask_before_write: {word}}}\n")
    assert "must be true or false" in problem


@pytest.mark.parametrize(
    ("word", "value"),
    [("false", False), ("0", False), ("off", False), (" No ", False), ("TRUE", True), ("1", True), ("On", True)],
)
def test_B116_a_switch_in_a_variable_is_read_by_its_word(desk: Any, word: str, value: bool) -> None:
    assert desk.load(environ={"HERMES_MEMORY_ASK_BEFORE_WRITE": word}).settings.memory.ask_before_write is value


def test_B116_an_unknown_word_in_a_variable_is_an_error_that_names_it(desk: Any) -> None:
    (problem,) = desk.problems(environ={"HERMES_APPROVAL_NETWORK": "maybe"})
    assert problem == "HERMES_APPROVAL_NETWORK: approval.network: must be true or false"


def test_B153_a_number_where_text_is_wanted_is_taken_as_written(desk: Any) -> None:
    text = "model: 1.10\nproviders: {w: {api_key: 0123, default_model: 3.0, headers: {V: 12}}}\n"
    settings = desk.load(text).settings
    assert settings.model == "1.10"
    assert (settings.providers["w"].api_key, settings.providers["w"].default_model) == ("0123", "3.0")
    assert settings.providers["w"].headers == {"V": "12"}


def test_B153_words_with_colons_and_tildes_stay_text(desk: Any) -> None:
    settings = desk.load("model: ollama:qwen3:8b\nsessions: {path: ~/x}\nlog: {path: 12:30}\n").settings
    assert (settings.model, settings.sessions.path, settings.log.path) == ("ollama:qwen3:8b", "~/x", "12:30")


def test_a_section_whose_lines_are_all_commented_out_is_empty(desk: Any) -> None:
    loaded = desk.load("limits:\n#  iterations: 5\nproviders:\n  w:\nplugins: null\n")
    assert loaded.settings.limits.iterations == 90
    assert set(loaded.settings.providers) == {"w"}
