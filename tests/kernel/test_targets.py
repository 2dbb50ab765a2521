"""Which model a run takes, and with whose key: `auto`, names, endpoints of the user's own, and what is never a key."""

from __future__ import annotations

import dataclasses
import json
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.kernel.config.settings import (
    ContextSettings,
    FallbackModel,
    ModelOptions,
    PluginSettings,
    ProviderSettings,
    Settings,
)
from hermes.kernel.discovery import scan
from hermes.kernel.effects import Fault, FaultKind
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ProviderError, SettingsError
from hermes.kernel.plugins import Plugins
from hermes.kernel.probing import first_server
from hermes.kernel.providers import ModelRow
from hermes.kernel.redact import redact
from hermes.kernel.targets import Targets
from hermes.testing import ScriptedServer

NOWHERE = "http://127.0.0.1:9/v1"
LOCAL = ("llamacpp", "lmstudio", "ollama", "vllm")


class Making:
    """Targets with this environment, no local server but those that a test names."""

    def __init__(self) -> None:
        self._plugins: list[Plugins] = []

    def __call__(
        self, environ: Mapping[str, str], *, servers: Mapping[str, str] | None = None, **given: Any
    ) -> Targets:
        endpoints = {name: ProviderSettings(base_url=(servers or {}).get(name, NOWHERE)) for name in LOCAL}
        settings = Settings(**{**given, "providers": {**endpoints, **given.get("providers", {})}})
        catalogue = scan()
        plugins = Plugins(PluginSettings(), catalogue, report=lambda notice: None)
        self._plugins.append(plugins)
        return Targets(settings, catalogue, plugins, environ)

    def close(self) -> None:
        for plugins in self._plugins:
            plugins.close()


@pytest.fixture
def make(hermes_home: Path) -> Iterator[Making]:
    making = Making()
    yield making
    making.close()


def never() -> bool:
    return False


def get(targets: Targets, name: str) -> Any:
    return targets.get(name, lambda what, share: None, never)


# ---- auto -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "name", "why"),
    [
        ({"OPENAI_API_KEY": "k"}, "openai:gpt-6.1-terra", "OPENAI_API_KEY is set"),
        ({"OPENROUTER_API_KEY": "k"}, "openrouter:openrouter/auto", "OPENROUTER_API_KEY is set"),
        ({"OPENROUTER_API_KEY": "k", "OPENAI_API_KEY": "k"}, "openai:gpt-6.1-terra", "OPENAI_API_KEY is set"),
        (
            {"OPENROUTER_API_KEY": "k", "OPENAI_API_KEY": "  "},
            "openrouter:openrouter/auto",
            "OPENROUTER_API_KEY is set",
        ),
    ],
)
def test_a_key_in_the_environment_is_taken_first_and_said(make: Making, environ: Any, name: str, why: str) -> None:
    choice = make(environ).choose()
    assert (choice.name, choice.why) == (name, why)


def test_keys_for_other_things_are_never_taken_for_a_model(make: Making, site: Any) -> None:
    rows = [
        {
            "name": f"p{number}",
            "base_url": "https://example.com/v1",
            "key_variables": [variable],
            "default_model": "m",
        }
        for number, variable in enumerate(["GITHUB_TOKEN", "GH_TOKEN", "HF_TOKEN", "AWS_ACCESS_KEY_ID", "FINE_KEY"])
    ]
    folder = site.directory / "acme_rows"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('data is read without running this')", encoding="utf-8")
    (folder / "rows.json").write_text(json.dumps({"providers": rows}), encoding="utf-8")
    site.distribution("acme-rows", {"hermes.profiles": {"acme": "acme_rows:rows.json"}})
    others = {"GITHUB_TOKEN": "k", "GH_TOKEN": "k", "HF_TOKEN": "k", "AWS_ACCESS_KEY_ID": "k", "AWS_PROFILE": "k"}
    with pytest.raises(SettingsError):
        make(others).choose()
    assert make({**others, "FINE_KEY": "k"}).choose().name == "p4:m"
    assert get(make(others), "p0:m").api_key == "k"  # named by the user, it is a key like any other


def test_a_local_server_that_answers_is_taken_when_there_is_no_key(make: Making) -> None:
    with ScriptedServer() as server:
        choice = make({"OLLAMA_API_KEY": "k"}, servers={"lmstudio": server.base_url}).choose()
    assert choice.name == "lmstudio:scripted-model"
    assert server.base_url in choice.why


def test_a_local_server_that_does_not_answer_is_not_waited_for(make: Making) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf, ScriptedServer() as server:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        targets = make({}, servers={"ollama": url, "llamacpp": server.base_url})
        began = time.monotonic()
        found = first_server([p for p in targets.profiles().values() if p.local])
        assert time.monotonic() - began < 1.5  # ten times the goal
    assert found is not None
    assert found[0].name == "llamacpp"


def test_something_else_on_the_port_is_no_model(make: Making, tmp_path: Path) -> None:
    import http.server
    import threading

    class Odd(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"data": []}')

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Odd) as odd:
        thread = threading.Thread(target=odd.serve_forever, args=(0.01,))
        thread.start()
        targets = make({}, servers={"ollama": f"http://127.0.0.1:{odd.server_port}/v1"})
        assert first_server([targets.profiles()["ollama"]]) is None
        odd.shutdown()
        thread.join()


def test_the_embedded_model_is_the_last_that_is_taken(make: Making, site: Any) -> None:
    source = """
        from hermes import hookimpl
        from hermes.kernel.providers import Profile

        class Embedded:
            profile = Profile("embedded")
            def available(self): return "tiny"
            def connect(self, model, report, cancelled): raise AssertionError
            def models(self): return []
            def close(self): pass

        @hookimpl
        def register_providers():
            return [Embedded()]
        """
    site.plugin("embedded", source, group="hermes.providers")
    assert make({}).choose().name == "embedded:tiny"
    assert make({}).choose("embedded").name == "embedded:tiny"
    assert make({"OPENAI_API_KEY": "k"}).choose().name == "openai:gpt-6.1-terra"


def test_without_anything_the_three_shortest_ways_are_named(make: Making) -> None:
    with pytest.raises(SettingsError) as told:
        make({}).choose()
    for way in ("OPENAI_API_KEY", "ollama serve", "hermes models fetch"):
        assert way in str(told.value)
    assert told.value.reason is EndReason.SETTINGS


# ---- By name --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("openai:gpt-5", "openai:gpt-5"),
        ("openai", "openai:gpt-6.1-terra"),
        ("openai:", "openai:gpt-6.1-terra"),
        ("openai:auto", "openai:gpt-6.1-terra"),
        ("openrouter:meta/llama:free", "openrouter:meta/llama:free"),
    ],
)
def test_a_name_is_completed(make: Making, spec: str, name: str) -> None:
    assert make({}, model=spec).choose().name == name


@pytest.mark.parametrize(
    ("spec", "says"),
    [("gpt-5", "provider:gpt-5"), ("llama3:8b", "ollama:llama3:8b"), ("ollama", "ollama:MODEL")],
)
def test_a_name_that_fits_nothing_says_what_to_write(make: Making, spec: str, says: str) -> None:
    with pytest.raises(SettingsError) as told:
        make({}, model=spec).choose()
    assert says in str(told.value)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("raise ImportError('no such library')", "no such library"),
        ("from hermes import hookimpl\n@hookimpl\ndef register_providers(): raise ValueError('bad day')", "bad day"),
    ],
)
def test_a_provider_that_is_installed_and_broken_is_not_told_as_missing(
    make: Making, site: Any, source: str, says: str
) -> None:
    site.plugin("engine", source, group="hermes.providers")
    with pytest.raises(SettingsError, match="does not work") as told:
        make({}, model="engine:x").choose()
    assert says in str(told.value)


# ---- Keys and targets -----------------------------------------------------------------------------------------------


def test_the_key_of_the_settings_wins_over_the_environment(make: Making) -> None:
    environ = {"OPENAI_API_KEY": "key-of-the-environment"}
    own = {"openai": ProviderSettings(api_key="mine")}
    assert get(make(environ), "openai:gpt-5").api_key == "key-of-the-environment"
    assert get(make(environ, providers=own), "openai:gpt-5").api_key == "mine"


def test_a_missing_key_says_which_variable(make: Making) -> None:
    with pytest.raises(ProviderError) as told:
        get(make({}), "openai:gpt-5")
    assert (told.value.kind, told.value.reason) == ("auth", EndReason.AUTH)
    assert "OPENAI_API_KEY" in str(told.value)


def test_a_key_does_not_go_to_another_host(make: Making) -> None:
    own = {"openai": ProviderSettings(base_url="https://evil.example/v1")}
    target = get(make({"OPENAI_API_KEY": "secret"}, providers=own), "openai:gpt-5")
    assert (target.base_url, target.api_key) == ("https://evil.example/v1", "")


def test_a_target_is_built_once(make: Making) -> None:
    targets = make({"OPENAI_API_KEY": "k"})
    assert get(targets, "openai:gpt-5") is get(targets, "openai:gpt-5")


def test_the_window_is_the_users_word_else_the_rows(make: Making) -> None:
    assert make({}).window_of("openai:gpt-5") == 272_000
    assert make({}, model_options=ModelOptions(context_window=9000)).window_of("openai:gpt-5") == 9000
    assert make({}).window_of("openai:unheard-of") is None
    stated = {"mine": ProviderSettings(base_url=NOWHERE, defaults={"window_tokens": 4096})}
    assert make({}, providers=stated).window_of("mine:x") == 4096


def test_the_users_own_facts_of_a_model_win_field_by_field(make: Making) -> None:
    own = {"openai": ProviderSettings(models={"gpt-5": {"window_tokens": 8000, "images": False}})}
    known = make({}, providers=own).known_of("openai:gpt-5")
    assert (known.row.window_tokens, known.row.images, known.row.price_input) == (8000, False, 1.25)
    assert known.sources[0] == "settings"
    target = get(make({"OPENAI_API_KEY": "k"}, providers=own), "openai:gpt-5")
    assert (target.window_tokens, target.row) == (8000, known.row)


def test_what_the_server_says_wins_over_every_catalogue_and_is_known_from_then_on(make: Making, answering: Any) -> None:
    server = answering({"/v1/models": {"data": [{"id": "m", "max_model_len": 4096}]}})
    targets = make({}, servers={"vllm": f"{server.url}/v1"})
    assert targets.window_of("vllm:m") is None
    assert get(targets, "vllm:m").window_tokens == 4096
    assert targets.window_of("vllm:m") == 4096
    assert targets.known_of("vllm:m").sources == ("its server",)
    declared = make({}, servers={"vllm": f"{server.url}/v1"}, model_options=ModelOptions(context_window=9000))
    assert get(declared, "vllm:m").window_tokens == 9000


def test_the_row_of_a_plugins_model_comes_before_the_catalogue(make: Making, site: Any) -> None:
    source = """
        from hermes import hookimpl
        from hermes.kernel.providers import Endpoint, ModelRow, Profile

        class Engine:
            profile = Profile("engine", models=(ModelRow("m", 10, 20),))
            def available(self): return "m"
            def connect(self, model, report, cancelled): return Endpoint("http://127.0.0.1:9/v1", "k", {}, 5)
            def models(self): return [ModelRow("m", 11)]
            def close(self): pass

        @hookimpl
        def register_providers():
            return [Engine()]
        """
    site.plugin("engine", source, group="hermes.providers")
    targets = make({})
    assert targets.known_of("engine:m").row == ModelRow("m", 11, 20)
    target = get(targets, "engine:m")
    assert (target.window_tokens, target.api_key, targets.pools.of("engine")) == (5, "k", None)
    assert targets.with_key(target) is target
    assert [p.profile.name for p in targets.plugin_providers()] == ["engine", "local"]


def test_a_price_is_known_by_the_row_or_because_each_reply_states_it(make: Making) -> None:
    targets = make({})
    assert targets.has_price("openai:gpt-5")
    assert targets.has_price("openrouter:anything/at-all")
    assert not targets.has_price("nous:Hermes-4-405B")
    assert not targets.has_price("ollama:qwen3")


@pytest.mark.parametrize(
    ("given", "life"), [({}, "5m"), ({"prompt_cache_ttl": "1h"}, "1h"), ({"prompt_cache": "never"}, "")]
)
def test_how_long_prompts_are_cached_is_part_of_the_target(make: Making, given: Any, life: str) -> None:
    assert get(make({"OPENAI_API_KEY": "k"}, context=ContextSettings(**given)), "openai:gpt-5").cache_ttl == life


def test_an_address_with_a_part_to_fill_is_filled_or_says_what_to_set(make: Making) -> None:
    environ = {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_RESOURCE": "mine"}
    assert get(make(environ), "azure:my-deployment").base_url == "https://mine.openai.azure.com/openai/v1"
    with pytest.raises(ProviderError, match="AZURE_OPENAI_RESOURCE") as told:
        get(make({"AZURE_OPENAI_API_KEY": "k"}), "azure:my-deployment")
    assert (told.value.kind, told.value.reason) == ("bad_request", EndReason.SETTINGS)


@pytest.mark.parametrize("name", ["bedrock:m", "custom:m", "ollama:m"])
def test_some_providers_go_without_a_key(make: Making, name: str) -> None:
    assert get(make({"CUSTOM_BASE_URL": NOWHERE}), name).api_key == ""


def test_a_wire_format_that_nobody_speaks_is_named(make: Making) -> None:
    odd = {"mine": ProviderSettings(base_url=NOWHERE, api_mode="telepathy")}
    targets = make({}, providers=odd)
    with pytest.raises(ProviderError, match="telepathy"):
        targets.wire(get(targets, "mine:x"))


# ---- Several keys ---------------------------------------------------------------------------------------------------


def test_B013_a_call_changes_nothing_of_its_target_but_the_key(make: Making) -> None:
    own = {"work": ProviderSettings(base_url=NOWHERE, api_key=("first-key", "second-key"), headers={"X-Team": "core"})}
    targets = make({}, providers=own)
    target = get(targets, "work:m")
    assert targets.with_key(target) is target
    limited = targets.refused(target, Fault(FaultKind.RATE_LIMIT, "slow down"))
    assert limited == Fault(FaultKind.RATE_LIMIT, "slow down", other_keys=1)
    other = targets.with_key(target)
    assert other == dataclasses.replace(target, api_key="second-key")
    assert targets.refused(other, Fault(FaultKind.AUTH)) == Fault(FaultKind.AUTH)


def test_spec_33088_33163_a_fault_of_the_fallback_leaves_the_primarys_keys_alone(make: Making) -> None:
    own = {
        "one": ProviderSettings(base_url=NOWHERE, api_key=("one-first", "one-second")),
        "two": ProviderSettings(base_url="http://127.0.0.1:9/two", api_key=("two-first", "two-second")),
    }
    targets = make({}, providers=own)
    primary, fallback = get(targets, "one:m"), get(targets, "two:m")
    assert targets.refused(fallback, Fault(FaultKind.BILLING)).other_keys == 1
    assert targets.with_key(primary).api_key == "one-first"
    assert targets.with_key(fallback).api_key == "two-second"
    assert targets.with_key(fallback).base_url == "http://127.0.0.1:9/two"


def test_spec_25205_a_primary_that_is_taken_up_again_gets_the_best_key_of_then(make: Making) -> None:
    own = {"work": ProviderSettings(base_url=NOWHERE, api_key=("first-key", "second-key"))}
    targets = make({}, providers=own)
    target = get(targets, "work:m")
    targets.refused(target, Fault(FaultKind.BILLING))
    assert get(targets, "work:m") is target  # its serialised prefix stays
    again = make({}, providers=own)  # the next run knows it from the file
    assert again.with_key(get(again, "work:m")).api_key == "second-key"


# ---- The chain ------------------------------------------------------------------------------------------------------

OWN = {name: ProviderSettings(base_url=f"http://127.0.0.1:9/{name}", api_key=name) for name in ("one", "two")}


def test_spec_22548_a_target_stands_in_the_chain_once(make: Making) -> None:
    fallback = ("one:m", "two:m", FallbackModel("two:m", context_window=1), "one:other")
    targets = make({}, model="one:m", fallback=fallback, providers=OWN)
    assert [choice.name for choice in targets.chain()] == ["one:m", "two:m", "one:other"]
    assert targets.window_of("two:m") is None


def test_B089_the_same_model_at_another_address_is_another_target(make: Making) -> None:
    targets = make({}, model="one:m", fallback=("two:m",), providers=OWN)
    targets.chain()
    assert [get(targets, name).base_url for name in ("one:m", "two:m")] == [OWN["one"].base_url, OWN["two"].base_url]


def test_spec_22387_a_window_that_was_declared_is_the_primarys_and_a_fallback_has_its_own(make: Making) -> None:
    options = ModelOptions(context_window=200_000)
    fallback = ("two:m", FallbackModel("two:small", context_window=8192))
    targets = make({}, model="one:m", model_options=options, fallback=fallback, providers=OWN)
    names = [choice.name for choice in targets.chain()]
    assert [targets.window_of(name) for name in names] == [200_000, None, 8192]
    assert [get(targets, name).window_tokens for name in names] == [200_000, None, 8192]


def test_spec_21256_a_fallback_has_its_own_effort_and_else_the_primarys(make: Making) -> None:
    options = ModelOptions(temperature=0.1, reasoning_effort="high", max_output_tokens=4000)
    fallback = ("two:m", FallbackModel("two:small", reasoning_effort="low", max_output_tokens=1000))
    targets = make({}, model="one:m", model_options=options, fallback=fallback, providers=OWN)
    found = [targets.options_of(choice.name) for choice in targets.chain()]
    assert [(o.temperature, o.reasoning_effort, o.max_output_tokens) for o in found] == [
        (0.1, "high", 4000),
        (0.1, "high", 4000),
        (0.1, "low", 1000),
    ]
    assert get(targets, "two:small").output_cap == 1000


# ---- Closing --------------------------------------------------------------------------------------------------------


def test_an_error_text_that_repeats_a_key_hides_it(make: Making) -> None:
    own = {"work": ProviderSettings(base_url=NOWHERE, api_key=("an-odd-looking-key", "another-odd-key"))}
    get(make({}, providers=own), "work:m")
    assert "odd" not in redact("no such key: an-odd-looking-key, another-odd-key")


def test_closing_closes_what_was_opened(make: Making) -> None:
    closed: list[str] = []
    targets = make({})
    targets._wires["w"] = SimpleNamespace(close=lambda: closed.append("wire"))  # type: ignore[assignment]
    targets._providers["p"] = SimpleNamespace(close=lambda: closed.append("provider"))  # type: ignore[assignment]
    targets.close()
    assert closed == ["wire", "provider"]
