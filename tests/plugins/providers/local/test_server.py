"""The local server is a child of the run: it answers, is shared, and is gone when the run is, however that ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ProviderError
from hermes.kernel.providers import Endpoint, ToolSchema
from hermes.kernel.textcalls import calls_in
from hermes.plugins.providers.local import LocalProvider
from hermes.plugins.wire.chat_completions.grammar import ANSWER, grammar_for

SMALL = "smollm2-135m-instruct"
GONE_TIMEOUT_S = 20.0


def quiet(what: str, share: float | None) -> None:
    pass


def never() -> bool:
    return False


def pid_of(provider: LocalProvider) -> int:
    [(running, _)] = provider._held.values()
    assert running.pid is not None
    return running.pid


def is_gone(pid: int) -> bool:
    """True when the process ended; a zombie that init has not collected is gone too."""
    end = time.monotonic() + GONE_TIMEOUT_S
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        threading.Event().wait(0.02)
    return False


def ask(endpoint: Endpoint, text: str, **options: Any) -> str:
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 40, **options}
    request = urllib.request.Request(
        f"{endpoint.base_url}/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {endpoint.api_key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        content: str = json.load(answer)["choices"][0]["message"]["content"]
    return content


@pytest.fixture
def make_provider(home_with_model: Path) -> Iterator[Callable[[], LocalProvider]]:
    made: list[LocalProvider] = []

    def make() -> LocalProvider:
        made.append(LocalProvider())
        return made[-1]

    yield make
    for provider in made:
        provider.close()


def test_it_loads_answers_reports_and_is_shared_until_the_last_agent_leaves(
    make_provider: Callable[[], LocalProvider],
) -> None:
    said: list[tuple[str, float | None]] = []
    prompt_was_read = threading.Event()

    def report(what: str, share: float | None) -> None:
        said.append((what, share))
        if what == "reading the prompt" and share == 1.0:
            prompt_was_read.set()

    provider = make_provider()
    endpoint = provider.connect(SMALL, report, never)
    assert endpoint.base_url.startswith("http://127.0.0.1:")
    assert endpoint.window_tokens == 8192
    assert ask(endpoint, "Say hello.").strip()
    assert prompt_was_read.wait(20)
    assert any(what == f"loading {SMALL}" for what, _ in said)
    assert all(share is None or 0 <= share <= 1 for _, share in said)

    other = make_provider()
    assert other.connect(SMALL, quiet, never) == endpoint
    assert provider.connect(SMALL, quiet, never) == endpoint
    pid = pid_of(provider)
    provider.close()
    provider.close()
    assert ask(endpoint, "hi", max_tokens=1) is not None
    other.close()
    assert is_gone(pid)


def test_it_outlives_the_thread_that_asked_for_it_and_a_stopped_wait(
    make_provider: Callable[[], LocalProvider],
) -> None:
    provider = make_provider()

    def begin() -> None:
        with pytest.raises(ProviderError, match="stopped"):
            provider.connect(SMALL, quiet, lambda: True)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    endpoint = provider.connect(SMALL, quiet, never)
    assert ask(endpoint, "hi", max_tokens=1) is not None


def test_a_server_that_died_is_replaced_at_the_next_connect(make_provider: Callable[[], LocalProvider]) -> None:
    provider = make_provider()
    provider.connect(SMALL, quiet, never)
    [(running, _)] = provider._held.values()
    psutil.Process(pid_of(provider)).kill()
    with running._changed:
        assert running._changed.wait_for(lambda: not running.alive, GONE_TIMEOUT_S)
    assert ask(provider.connect(SMALL, quiet, never), "hi", max_tokens=1) is not None


@pytest.fixture(scope="module")
def warm(small_weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalProvider]:
    """A provider whose server is up, for the tests that only use one."""
    home = tmp_path_factory.mktemp("warm")
    (home / "models").mkdir()
    (home / "models" / f"{SMALL}.gguf").symlink_to(small_weights)
    provider = LocalProvider()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", str(home))
        provider.connect(SMALL, quiet, never)
        yield provider
    provider.close()


@pytest.fixture
def endpoint(warm: LocalProvider, home_with_model: Path) -> Endpoint:
    return warm.connect(SMALL, quiet, never)


def test_a_grammar_makes_even_the_smallest_model_write_a_whole_call(endpoint: Endpoint) -> None:
    tool = ToolSchema(
        'odd "tool"',
        "",
        {
            "properties": {
                "path\n": {"enum": ["a", "ü"]},
                "count": {"type": ["integer", "null"]},
                "deep": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "boolean"}}}},
            },
            "required": ["path\n", "count"],
        },
    )
    grammar = grammar_for([tool]).replace("root ::= call | text", "root ::= call")
    content = ask(endpoint, "Use the tool.", grammar=grammar, max_tokens=200)
    rest, calls = calls_in(content, [tool.name, ANSWER.name])
    assert rest == ""
    [(name, arguments)] = calls
    # half of the choices of so small a model are wrong; the form never is
    assert set(json.loads(arguments)) >= ({"text"} if name == ANSWER.name else {"path\n", "count"})

    plain = ask(endpoint, "Use the tool.", grammar=grammar_for([]))
    assert plain
    assert plain[0] not in "{<["


def test_only_who_has_the_key_is_answered(endpoint: Endpoint) -> None:
    assert endpoint.api_key not in repr(endpoint)
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        ask(Endpoint(endpoint.base_url, "wrong"), "hello")
    refused.value.close()


def test_a_terminals_interrupt_does_not_reach_it(warm: LocalProvider) -> None:
    assert os.getsid(pid_of(warm)) != os.getsid(0)


def test_a_damaged_file_is_named_with_what_to_do(make_provider: Callable[[], LocalProvider], home: Path) -> None:
    (home / "models" / "broken.gguf").write_bytes(b"GGUF" + bytes(200))
    with pytest.raises(ProviderError, match=r"broken\.gguf.*fetch it again") as failed:
        make_provider().connect("broken", quiet, never)
    assert failed.value.reason is EndReason.PROVIDER_FAILED


def test_a_model_that_is_not_here_says_how_to_get_it(make_provider: Callable[[], LocalProvider]) -> None:
    with pytest.raises(ProviderError, match=r"hermes models fetch qwen2\.5-coder-1\.5b-instruct") as failed:
        make_provider().connect("qwen2.5-coder-1.5b-instruct", quiet, never)
    assert failed.value.reason is EndReason.SETTINGS


def test_auto_takes_the_embedded_model_or_the_users_own_but_not_the_test_model(
    make_provider: Callable[[], LocalProvider], home: Path
) -> None:
    provider = make_provider()
    assert provider.available() is None
    (home / "models" / "mine.gguf").write_bytes(b"GGUF")
    assert provider.available() == "mine"
    (home / "models" / "qwen2.5-coder-1.5b-instruct.gguf").write_bytes(b"GGUF")
    assert provider.available() == "qwen2.5-coder-1.5b-instruct"
    assert [row.name for row in provider.models()] == ["qwen2.5-coder-1.5b-instruct", SMALL, "mine"]


RUN = """
import os, sys
from hermes.kernel.errors import ProviderError
from hermes.plugins.providers.local import LocalProvider
provider = LocalProvider()
stage, ending = sys.argv[1].split("-")
try:
    provider.connect({small!r}, lambda what, share: None, lambda: stage == "loading")
except ProviderError:
    pass
[(running, _)] = provider._held.values()
with running._changed:
    running._changed.wait_for(lambda: running.pid)
print(running.pid, flush=True)
if ending == "raise":
    raise RuntimeError("the run failed")
if ending == "leave":
    os._exit(0)
if ending == "close":
    provider.close()
elif ending != "return":
    sys.stdin.read()
"""

ENDINGS = ["ready-kill", "ready-return"] + [
    f"loading-{ending}" for ending in ("kill", "term", "raise", "leave", "return", "close") for _ in range(3)
]


AT_ONCE = 4


def start_run(how: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", RUN.format(small=SMALL), how],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_twenty_runs_that_end_in_every_way_leave_no_server_behind(home_with_model: Path) -> None:
    pids = []
    for first in range(0, len(ENDINGS), AT_ONCE):
        endings = ENDINGS[first : first + AT_ONCE]
        with contextlib.ExitStack() as stack:
            runs = [stack.enter_context(start_run(how)) for how in endings]
            for run, how in zip(runs, endings, strict=True):
                assert run.stdout is not None
                pids.append(int(run.stdout.readline()))
                if how.endswith("kill"):
                    run.kill()
                elif how.endswith("term"):
                    run.send_signal(signal.SIGTERM)
                run.wait(GONE_TIMEOUT_S)
    assert len(pids) == 20
    assert [pid for pid in pids if not is_gone(pid)] == []
