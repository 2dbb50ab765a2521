"""Servers are asked about their models: documented answers are read, odd and hung ones cost a bounded time."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from hermes.kernel import probing
from hermes.kernel.probing import NEAR_S, Answer, Server, list_models, probe, server_of
from hermes.kernel.providers import ModelRow, Profile, Target

Answers = Mapping[str, Any]


def target(kind: str, url: str, model: str, **more: Any) -> Target:
    return Target(f"p:{model}", Profile("p", quirks={"probe": kind}), model, f"{url}/v1", "chat_completions", **more)


# ---- What servers answer, by their own documentation ----------------------------------------------------------------

OLLAMA_SHOW = {
    "parameters": 'stop                           "<eot>"\nnum_ctx                        16384',
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 262144, "qwen3.block_count": 36},
    "capabilities": ["completion", "tools", "thinking"],
}
LM_STUDIO = {
    "object": "list",
    "data": [
        {"id": "qwen2-vl-7b", "type": "vlm", "state": "not-loaded", "max_context_length": 32768},
        {"id": "llama-8b", "type": "llm", "state": "loaded", "max_context_length": 131072,
         "loaded_context_length": 4096, "capabilities": ["tool_use"]},
    ],
}  # fmt: skip
LLAMA_PROPS = {
    "default_generation_settings": {"id": 0, "n_ctx": 8192, "params": {}},
    "total_slots": 1,
    "modalities": {"vision": True, "audio": False},
}
LLAMA_MODELS = {"object": "list", "data": [{"id": "m.gguf", "meta": {"n_ctx_train": 40960, "n_params": 1}}]}
VLLM = {"object": "list", "data": [{"id": "org/m", "object": "model", "max_model_len": 65536}]}

CASES = [
    ("ollama", "m", {"/api/show": OLLAMA_SHOW}, ModelRow("m", 16384, images=False, tools=True, reasoning=True)),
    ("ollama", "m",
     {"/api/show": OLLAMA_SHOW, "/api/ps": {"models": [{"name": "x", "context_length": 1}, {"name": "m", "model": "m",
                                                                                          "context_length": 4096}]}},
     ModelRow("m", 4096, images=False, tools=True, reasoning=True)),
    ("ollama", "m", {"/api/show": {"model_info": {"gemma.context_length": 8192}}}, ModelRow("m", 8192)),
    ("lmstudio", "llama-8b", {"/api/v0/models": LM_STUDIO}, ModelRow("llama-8b", 4096, images=False, tools=True)),
    ("lmstudio", "qwen2-vl-7b", {"/api/v0/models": LM_STUDIO}, ModelRow("qwen2-vl-7b", 32768, images=True)),
    ("llamacpp", "m.gguf", {"/props": LLAMA_PROPS}, ModelRow("m.gguf", 8192, images=True, audio=False)),
    ("llamacpp", "m.gguf", {"/v1/models": LLAMA_MODELS}, ModelRow("m.gguf", 40960)),
    ("models", "org/m", {"/v1/models": VLLM}, ModelRow("org/m", 65536)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "model", "answers", "row"), CASES)
def test_what_a_server_documents_is_read(
    answering: Any, kind: str, model: str, answers: Answers, row: ModelRow
) -> None:
    assert probe(target(kind, answering(answers).url, model)) == row


def test_ollama_is_asked_for_the_model_and_llama_cpp_without_loading_it(answering: Any) -> None:
    ollama, llama = answering({}), answering({})
    probe(target("ollama", ollama.url, "qwen3:8b"))
    probe(target("llamacpp", llama.url, "org/m:Q4"))
    assert ollama.asked[0][:3] == ("POST", "/api/show", {"model": "qwen3:8b"})
    assert llama.asked[0][1] == "/props?model=org%2Fm%3AQ4&autoload=false"


ODD: list[Any] = [[], "text", 7, {"data": 3}, {"data": [None, 3, {}, {"id": 5}]}, {"models": [3]}, {"parameters": 5},
                  {"default_generation_settings": []}, {"model_info": {"a.context_length": "many"}}, b"not json", b"",
                  {"data": [{"id": "m", "max_model_len": "many", "meta": 5, "pricing": []}]}, 302, 500]  # fmt: skip


@pytest.mark.parametrize("kind", probing.PROBES)
@pytest.mark.parametrize("answer", ODD)
def test_an_odd_answer_is_no_answer_and_no_error(answering: Any, kind: str, answer: Any) -> None:
    paths = ("/api/show", "/api/ps", "/api/v0/models", "/props", "/v1/models")
    row = probe(target(kind, answering(dict.fromkeys(paths, answer)).url, "m"))
    assert row is None or row.window_tokens is None


def test_a_provider_without_a_probe_is_not_asked(answering: Any) -> None:
    server = answering({"/v1/models": VLLM})
    plain = Target("p:org/m", Profile("p"), "org/m", f"{server.url}/v1", "chat_completions")
    assert probe(plain) is None
    assert server.asked == []


def test_an_answer_is_kept_for_the_process_and_a_failure_for_a_while(answering: Any) -> None:
    good, bad = answering({"/v1/models": VLLM}), answering({})
    for _ in range(3):
        assert probe(target("models", good.url, "org/m")) is not None
        assert probe(target("models", bad.url, "org/m")) is None
    assert (len(good.asked), len(bad.asked)) == (1, 1)


# ---- Servers that hang, drip, are not there, or send us elsewhere ---------------------------------------------------


@pytest.mark.parametrize("kind", probing.PROBES)
def test_a_server_that_accepts_and_says_nothing_delays_by_a_second(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        began = time.monotonic()
        assert probe(target(kind, f"http://127.0.0.1:{deaf.getsockname()[1]}", "m")) is None
        assert time.monotonic() - began < 10 * NEAR_S


def test_all_questions_to_one_server_have_one_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        late = Server(url, until=time.monotonic() - 1)
        began = time.monotonic()
        assert [late.ask(url).problem for _ in range(3)] == ["no answer within 0.001 s"] * 3
        assert time.monotonic() - began < NEAR_S


def test_a_server_that_drips_does_not_move_the_deadline() -> None:
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not stop.wait(0.02):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        answer = Server(f"http://127.0.0.1:{listener.getsockname()[1]}").ask(
            f"http://127.0.0.1:{listener.getsockname()[1]}/models", within_s=0.2
        )
        stop.set()
        thread.join()
    assert answer == Answer(problem="no answer within 0.2 s")


def test_nobody_there_and_no_url_are_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert "refused" in Server(url).ask(f"{url}/models").problem
    assert Server("nowhere").ask("nowhere/models").problem
    assert Server("").ask("/models").status is None


def test_a_redirect_is_not_followed_with_the_key(answering: Any) -> None:
    server = answering({"/v1/models": 302, "/elsewhere": VLLM})
    answer, rows = list_models(Server(f"{server.url}/v1", {"Authorization": "Bearer secret"}), "chat_completions")
    assert (answer.status, answer.problem, rows) == (302, "HTTP 302", ())
    assert [path for _, path, _, _ in server.asked] == ["/v1/models"]


def test_spec_46620_a_probe_behind_a_proxy_that_answers_403_fails_at_once(
    answering: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            self.send_error(403, "Forbidden")

        do_GET = do_CONNECT

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,))
        thread.start()
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        for scheme in ("http", "https"):
            began = time.monotonic()
            answer, rows = list_models(Server(f"{scheme}://models.example/v1"), "chat_completions")
            assert time.monotonic() - began < 15
            assert rows == ()
            assert "403" in answer.problem
        here = answering({"/v1/models": VLLM})  # this machine is never asked through a proxy
        assert probe(target("models", here.url, "org/m")) is not None
        proxy.shutdown()
        thread.join()


# ---- Lists ----------------------------------------------------------------------------------------------------------


def test_the_list_of_openrouter_has_windows_prices_and_abilities(answering: Any) -> None:
    item = {
        "id": "anthropic/claude-opus-5",
        "context_length": 1000000,
        "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
        "pricing": {"prompt": "0.000005", "completion": "0.000025", "input_cache_read": "0.0000005", "image": "0.0048"},
        "top_provider": {"context_length": 1000000, "max_completion_tokens": 128000, "is_moderated": True},
        "supported_parameters": ["tools", "reasoning", "structured_outputs"],
    }
    free = {"id": "x/y:free", "context_length": 8192, "pricing": {"prompt": "0", "completion": "0"}}
    routed = {"id": "openrouter/auto", "pricing": {"prompt": "-1", "completion": "-1"}}
    server = answering({"/v1/models": {"data": [item, free, routed]}})
    _, rows = list_models(Server(f"{server.url}/v1"), "chat_completions")
    assert rows == (
        ModelRow(
            "anthropic/claude-opus-5", 1000000, 128000, 5.0, 25.0, 0.5, images=True, tools=True, schemas=True,
            reasoning=True,
        ),
        ModelRow("x/y:free", 8192, price_input=0.0, price_output=0.0),
        ModelRow("openrouter/auto"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("item", "window", "output"),
    [
        ({"context_window": 131072, "max_completion_tokens": 65536}, 131072, 65536),  # Groq
        ({"max_context_length": 262144}, 262144, None),  # Mistral
        ({"context_length": 1048576}, 1048576, None),  # Together, Moonshot
        ({"max_input_tokens": 200000, "max_tokens": 64000}, 200000, 64000),  # Anthropic
        ({"meta": {"n_ctx": 4096, "n_ctx_train": 32768}}, 4096, None),  # llama.cpp
        ({"context_length": 0, "max_model_len": True}, None, None),
    ],
)
def test_each_providers_word_for_the_window_is_known(item: Any, window: int | None, output: int | None) -> None:
    (row,) = probing.listed_rows([{"id": "m", **item}])
    assert (row.window_tokens, row.output_tokens) == (window, output)


def test_the_key_goes_in_the_header_of_the_wire_format(answering: Any) -> None:
    server = answering({"/v1/models": VLLM, "/models": VLLM})
    for api_mode in ("anthropic_messages", "chat_completions"):
        where = Target("p:m", Profile("p"), "m", server.url, api_mode, "the-key", {"X-Team": "core"})
        assert list_models(server_of(where), api_mode)[1]
    (_, first, _, anthropic), (_, second, _, plain) = server.asked
    assert (first, second) == ("/v1/models?limit=1000", "/models")
    assert anthropic["x-api-key"] == "the-key"
    assert anthropic["anthropic-version"] == "2023-06-01"
    assert "Authorization" not in anthropic
    assert plain["Authorization"] == "Bearer the-key"
    assert anthropic["X-Team"] == plain["X-Team"] == "core"
    assert "the-key" not in repr(server_of(where))
