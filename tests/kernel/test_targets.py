"""Which model a run takes, and with whose key: `auto`, names, endpoints of the user's own, and what is never a key."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.kernel.config.settings import ModelOptions, PluginSettings, ProviderSettings, Settings
from hermes.kernel.discovery import scan
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ProviderError, SettingsError
from hermes.kernel.messages import Usage
from hermes.kernel.plugins import Plugins
from hermes.kernel.providers import ModelRow, Profile
from hermes.kernel.targets import Targets, cost_usd, key_of, probe
from hermes.testing import ScriptedServer

NOWHERE = "http://127.0.0.1:9/v1"
LOCAL = ("llamacpp", "lmstudio", "ollama")


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
        ({"OPENAI_API_KEY": "k"}, "openai:gpt-5-mini", "OPENAI_API_KEY is set"),
        ({"OPENROUTER_API_KEY": "k"}, "openrouter:openrouter/auto", "OPENROUTER_API_KEY is set"),
        ({"OPENROUTER_API_KEY": "k", "OPENAI_API_KEY": "k"}, "openai:gpt-5-mini", "OPENAI_API_KEY is set"),
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
        found = probe([p for p in targets.profiles().values() if p.local])
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
        assert probe([targets.profiles()["ollama"]]) is None
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
    assert make({"OPENAI_API_KEY": "k"}).choose().name == "openai:gpt-5-mini"


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
        ("openai", "openai:gpt-5-mini"),
        ("openai:", "openai:gpt-5-mini"),
        ("openai:auto", "openai:gpt-5-mini"),
        ("openrouter:meta/llama:free", "openrouter:meta/llama:free"),
    ],
)
def test_a_name_is_completed(make: Making, spec: str, name: str) -> None:
    assert make({}, model=spec).choose().name == name


@pytest.mark.parametrize(
    ("spec", "says"),
    [("gpt-5", "provider:gpt-5"), ("qwen:7b", "ollama:qwen:7b"), ("ollama", "ollama:MODEL")],
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
    environ = {"OPENAI_API_KEY": "from the environment"}
    own = {"openai": ProviderSettings(api_key="mine")}
    assert get(make(environ), "openai:gpt-5").api_key == "from the environment"
    assert get(make(environ, providers=own), "openai:gpt-5").api_key == "mine"
    several = ProviderSettings(api_key=("first", "second"))
    assert key_of(Profile("p"), several, {}) == "first"


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
    assert make({}).window_of("openai:gpt-5") == 400_000
    assert make({}, model_options=ModelOptions(context_window=9000)).window_of("openai:gpt-5") == 9000
    assert make({}).window_of("openai:unheard-of") is None
    stated = {"mine": ProviderSettings(base_url=NOWHERE, defaults={"window_tokens": 4096})}
    assert make({}, providers=stated).window_of("mine:x") == 4096


def test_a_wire_format_that_nobody_speaks_is_named(make: Making) -> None:
    odd = {"mine": ProviderSettings(base_url=NOWHERE, api_mode="telepathy")}
    targets = make({}, providers=odd)
    with pytest.raises(ProviderError, match="telepathy"):
        targets.wire(get(targets, "mine:x"))


# ---- What a call costs ----------------------------------------------------------------------------------------------


def test_a_price_that_is_not_known_gives_no_cost() -> None:
    usage = Usage(1000, 1000)
    assert cost_usd(None, usage) is None
    assert cost_usd(ModelRow("m", price_input=1.0), usage) is None


def test_every_bucket_has_its_price() -> None:
    row = ModelRow("m", price_input=1.0, price_output=10.0, price_cache_read=0.1)
    million = 1_000_000
    assert cost_usd(row, Usage(million, 0)) == pytest.approx(1.0)
    assert cost_usd(row, Usage(0, million)) == pytest.approx(10.0)
    assert cost_usd(row, Usage(0, 0, million)) == pytest.approx(0.1)
    assert cost_usd(row, Usage(0, 0, 0, million)) == pytest.approx(1.0)
    assert cost_usd(row, Usage(0, 0, 0, 0, million)) == pytest.approx(10.0)
    free = ModelRow("m", price_input=0.0, price_output=0.0)
    assert cost_usd(free, Usage(million, million)) == 0.0


def test_closing_closes_what_was_opened(make: Making) -> None:
    closed: list[str] = []
    targets = make({})
    targets._wires["w"] = SimpleNamespace(close=lambda: closed.append("wire"))  # type: ignore[assignment]
    targets._providers["p"] = SimpleNamespace(close=lambda: closed.append("provider"))  # type: ignore[assignment]
    targets.close()
    assert closed == ["wire", "provider"]
