"""`${…}`: what it becomes, that a mistake is an error with its key, and that no message ever shows what came in."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.kernel.config.settings import ProviderSettings

SECRET = "sk-verysecret"


def provider(desk: Any, line: str, **environ: str) -> ProviderSettings:
    loaded = desk.load(f"providers:\n  w:\n    {line}\n", environ=environ)
    found: ProviderSettings = loaded.settings.providers["w"]
    return found


def test_a_variable_is_filled_in(desk: Any) -> None:
    assert provider(desk, "api_key: ${env:K}", K=SECRET).api_key == SECRET


def test_B036_white_space_and_line_breaks_around_a_key_are_dropped(desk: Any) -> None:
    assert provider(desk, "api_key: ${env:K}", K=f"{SECRET} \n").api_key == SECRET
    desk.write(f" {SECRET}\r\n\n", "key.txt")
    assert provider(desk, "api_key: ${file:key.txt}").api_key == SECRET


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("api_key: ${K}", "did you mean ${env:K}"),
        ("api_key: $K", "did you mean ${env:K}"),
        ("key_env: K", "write api_key: ${env:NAME}"),
        ("api_key_env: K", "write api_key: ${env:NAME}"),
        ("api_key: ${env:K}", "the variable K is not set"),
        ("api_key: '${env:A:-${env:B}}'", "not supported"),
        ("api_key: ${vault:x}", "is not one of ${env:NAME}"),
        ("api_key: '${env:K'", "no closing }"),
        ("api_key: ${file:}", "names no file"),
        ("api_key: ${file:nope}", "cannot read the file nope"),
        ("api_key: ${file:/dev/zero}", "not a regular file"),
    ],
)
def test_B036_a_wrong_reference_is_an_error_that_names_the_key(desk: Any, line: str, hint: str) -> None:
    (problem,) = desk.problems(f"providers:\n  w:\n    {line}\n")
    assert problem.startswith("given.yaml:3:")
    assert f": providers.w.{line.partition(':')[0]}: " in problem
    assert hint in problem


def test_B036_an_empty_variable_is_an_error_unless_a_default_says_otherwise(desk: Any) -> None:
    assert "K is empty" in desk.problems("model: ${env:K}\n", environ={"K": ""})[0]
    assert desk.load("model: ${env:K:-auto}\n", environ={"K": ""}).settings.model == "auto"


def test_B036_every_consumer_gets_the_filled_in_value(desk: Any) -> None:
    text = "auxiliary: {model: '${env:M}'}\nfallback: ['${env:M}']\nproviders: {w: {api_key: ['${env:M}', b]}}\n"
    settings = desk.load(text, environ={"M": "a:b"}).settings
    assert (settings.auxiliary.model, settings.fallback) == ("a:b", ("a:b",))
    assert settings.providers["w"].api_key == ("a:b", "b")


def test_a_message_is_shown_when_a_variable_is_missing(desk: Any) -> None:
    (problem,) = desk.problems("model: ${env:M:?get one from the wiki}\n")
    assert problem.endswith("the variable M is not set: get one from the wiki")


def test_a_double_dollar_is_a_literal(desk: Any) -> None:
    assert desk.load("prompt: {append: 'use $${HOME} and $HOME'}\n").settings.prompt.append == "use ${HOME} and $HOME"


def test_text_around_and_several_in_one_value(desk: Any) -> None:
    loaded = desk.load("model: ${env:P}:${env:M}\n", environ={"P": "openai", "M": "gpt-5"})
    assert loaded.settings.model == "openai:gpt-5"


def test_a_value_cannot_change_the_document(desk: Any) -> None:
    loaded = desk.load("model: ${env:M}\n", environ={"M": "x\napproval: {mode: allow} # ' \""})
    assert loaded.settings.approval.mode == "ask"
    assert "${" not in desk.load("model: ${env:M}\n", environ={"M": "y"}).settings.model


def test_what_comes_in_is_not_filled_in_again(desk: Any) -> None:
    assert desk.load("model: ${env:M}\n", environ={"M": "${env:K}", "K": "no"}).settings.model == "${env:K}"


def test_B153_the_schema_decides_what_a_text_becomes(desk: Any) -> None:
    text = (
        "providers: {w: {api_key: '${env:N}', headers: {A: '${env:N}'}}}\nlimits: {iterations: '${env:I}'}\n"
        "memory: {ask_before_write: '${env:B}'}\nfallback: ${env:L}\nrequest: {stall_timeout_s: '${env:F}'}\n"
    )
    environ = {"N": "0123", "I": "7", "B": "Yes", "L": "a:b, c:d", "F": "1.5"}
    settings = desk.load(text, environ=environ).settings
    assert settings.providers["w"].api_key == "0123"
    assert settings.providers["w"].headers == {"A": "0123"}
    assert settings.limits.iterations == 7
    assert settings.memory.ask_before_write is True
    assert settings.fallback == ("a:b", "c:d")
    assert settings.request.stall_timeout_s == 1.5


def test_a_file_is_looked_for_beside_the_settings_file_and_in_the_home(desk: Any, monkeypatch: Any) -> None:
    desk.write("I am\r\nSOUL\n", "SOUL.md")
    monkeypatch.setenv("HOME", str(desk.home))
    (desk.home / "k").write_text("secret")
    text = "prompt: {identity: '${file:SOUL.md}', append: '${file:~/k}'}\n"
    settings = desk.load(text, cwd=desk.home).settings
    assert settings.prompt.identity == "I am\nSOUL"
    assert settings.prompt.append == "secret"


def test_B022_a_file_in_another_encoding_is_an_error(desk: Any) -> None:
    desk.write("é".encode("cp1252"), "k")
    assert "is not UTF-8" in desk.problems("model: ${file:k}\n")[0]


@pytest.mark.parametrize(
    "text",
    [
        "approval: {mode: '${env:S}'}",
        "limits: {iterations: '${env:S}'}",
        "limits: {iterations: 'x${env:S}y'}",
        "memory: {ask_before_write: '${env:S}'}",
        "context: {warn_at: ['${env:S}']}",
        "providers: {w: {api_key: {a: '${env:S}'}}}",
        "providers: {w: '${env:S}'}",
        "providers: {w: {api_key: [[sk-verysecret]]}}",
        "providers: {w: {api_key: sk-verysecret, headers: {a: [sk-verysecret]}}, v: 5}",
        "tools: {replace: '${env:S}'}",
        "pool: {strategy: '${env:S}'}",
    ],
)
def test_no_message_shows_what_came_in(desk: Any, text: str) -> None:
    problems = desk.problems(f"{text}\n", environ={"S": SECRET})
    assert problems
    assert all("verysecret" not in line for line in problems)


def test_no_message_shows_a_variables_value(desk: Any) -> None:
    for name in ("HERMES_LIMITS_ITERATIONS", "HERMES_APPROVAL_MODE", "HERMES_DISPLAY_STREAM"):
        (problem,) = desk.problems(environ={name: SECRET})
        assert problem.startswith(f"{name}: ")
        assert "verysecret" not in problem


def test_a_repr_shows_no_key(desk: Any) -> None:
    loaded = desk.load("providers: {w: {api_key: '${env:S}'}}\n", environ={"S": SECRET})
    assert "verysecret" not in repr(loaded)
