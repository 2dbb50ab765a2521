"""Ask servers about their models: facts where a server offers them, the list of its models, and who answers at all.

Every question has a deadline that a hung or dripping server cannot move, and no answer is never an error.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from hermes.kernel.messages import Json
from hermes.kernel.profiles import is_local
from hermes.kernel.providers import ModelRow, Profile, Target

NEAR_S = 1.0
"""For a server on this machine: it knows the answer, or it is busy."""
FAR_S = 5.0
FIRST_SERVER_S = 0.150
"""How long all local servers together may take to answer when `model: auto` looks for one (issue 2)."""
UNANSWERED_FOR_S = 60.0
"""So long a server that gave no facts is not asked again; what one did tell is kept for the process."""
LARGEST_BYTES = 16_000_000
USER_AGENT = "hermes-kernel"
"""urllib's own is refused by hosts that keep robots out."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question. `status` None: nothing came; `problem` says why, "" when `data` is the JSON answer."""

    status: int | None = None
    data: Json = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """Where a provider is asked: its base URL, and the headers that let us in.

    `until` is the moment (`time.monotonic`) at which all questions together must be answered; None: each has its time.
    """

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    until: float | None = None

    @property
    def root(self) -> str:
        """The address without the `/v1` of the OpenAI-compatible part."""
        return self.base_url.rstrip("/").removesuffix("/v1")

    def ask(self, url: str, body: Json = None, *, within_s: float | None = None) -> Answer:
        """GET, or POST with a body, in a thread that is left behind at the deadline. Never raises."""
        wait_s = within_s or patience_s(url)
        if self.until is not None:
            wait_s = max(min(wait_s, self.until - time.monotonic()), 0.001)
        answers: list[Answer] = []
        thread = threading.Thread(
            target=lambda: answers.append(_exchange(url, body, self.headers, wait_s)), daemon=True
        )
        thread.start()
        thread.join(wait_s)
        return answers[0] if answers else _late(wait_s)


def patience_s(url: str) -> float:
    return NEAR_S if is_local(url) else FAR_S


def _exchange(url: str, body: Json, headers: Mapping[str, str], wait_s: float) -> Answer:
    import http.client
    import urllib.error
    import urllib.request  # with ssl and email it costs as much as the rest of the start

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        """A key must not go on to another host."""

        def redirect_request(self, *args: Any, **kwargs: Any) -> None:
            return None

    proxies = [urllib.request.ProxyHandler({})] if is_local(url) else []
    data = None if body is None else json.dumps(body).encode()
    sent = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": USER_AGENT, **headers}
    try:
        request = urllib.request.Request(url, data, sent)
        with urllib.request.build_opener(NoRedirect, *proxies).open(request, timeout=wait_s) as response:
            return Answer(response.status, json.loads(response.read(LARGEST_BYTES)))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, problem=f"HTTP {error.code}")
    except TimeoutError:
        return _late(wait_s)
    except urllib.error.URLError as error:
        return _late(wait_s) if isinstance(error.reason, TimeoutError) else Answer(problem=str(error.reason))
    except (OSError, http.client.HTTPException) as error:
        return Answer(problem=str(error) or type(error).__name__)
    except ValueError:
        return Answer(problem="the answer is no JSON, or the address is no URL")


def _late(wait_s: float) -> Answer:
    return Answer(problem=f"no answer within {wait_s:g} s")


# ---- The facts of one model -----------------------------------------------------------------------------------------

_kept: dict[tuple[str, str, str], tuple[float, ModelRow | None]] = {}
_kept_lock = threading.Lock()


def probe(target: Target) -> ModelRow | None:
    """What the server says of the target's model; None where it offers nothing (the profile's quirk `probe`)."""
    kind = str(target.quirk("probe", ""))
    if kind not in PROBES:
        return None
    key = (kind, target.base_url, target.model)
    with _kept_lock:
        asked, row = _kept.get(key, (0.0, None))
        if row is not None or (asked and time.monotonic() - asked < UNANSWERED_FOR_S):
            return row
    server = replace(server_of(target), until=time.monotonic() + patience_s(target.base_url))
    row = _read(PROBES[kind], server, target.model)
    with _kept_lock:
        _kept[key] = (time.monotonic(), row)
    return row


def _read(reader: Callable[[Server, str], ModelRow | None], server: Server, model: str) -> ModelRow | None:
    """Nothing that an odd server may answer is our fault."""
    try:
        return reader(server, model)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        return None


def _ollama(server: Server, model: str) -> ModelRow | None:
    """The window is that of the loaded model, else what its file sets, else the longest that it was trained for."""
    shown = server.ask(f"{server.root}/api/show", {"model": model})
    if shown.problem:
        return None
    running = server.ask(f"{server.root}/api/ps").data or {}
    loaded = [m.get("context_length") for m in running.get("models", ()) if model in (m.get("name"), m.get("model"))]
    set_in_file = [line.split()[1] for line in shown.data.get("parameters", "").splitlines() if "num_ctx " in line]
    trained = [v for k, v in shown.data.get("model_info", {}).items() if k.endswith(".context_length")]
    window = next((int(n) for n in (*loaded, *set_in_file, *trained) if n), None)
    able = shown.data.get("capabilities")
    if able is None:
        return ModelRow(model, window)
    return ModelRow(model, window, images="vision" in able, tools="tools" in able, reasoning="thinking" in able)


def _lm_studio(server: Server, model: str) -> ModelRow | None:
    listed = server.ask(f"{server.root}/api/v0/models").data
    row = next(m for m in listed["data"] if m["id"] == model) if listed else {}
    window = _count(row, ("loaded_context_length", "max_context_length"))
    able = row.get("capabilities")
    tools = None if able is None else "tool_use" in able
    return ModelRow(model, window, images=row.get("type") == "vlm", tools=tools) if row else None


def _llama_cpp(server: Server, model: str) -> ModelRow | None:
    """The window is that of one slot. A router (several models) tells it of a model that is loaded."""
    props = server.ask(f"{server.root}/props?model={quote(model, safe='')}&autoload=false")
    if not props.problem and (window := _count(props.data["default_generation_settings"], ("n_ctx",))):
        seen = props.data.get("modalities", {})
        return ModelRow(model, window, images=seen.get("vision"), audio=seen.get("audio"))
    return _from_list(server, model)


def _from_list(server: Server, model: str) -> ModelRow | None:
    return next((row for row in listed_rows(server.ask(f"{server.base_url}/models").data) if row.name == model), None)


PROBES: Mapping[str, Callable[[Server, str], ModelRow | None]] = {
    "ollama": _ollama,
    "lmstudio": _lm_studio,
    "llamacpp": _llama_cpp,
    "models": _from_list,
}
"""By the quirk `probe`: the servers' own API references, November 2026. `models`: the list of models has the facts."""


# ---- The list of models ---------------------------------------------------------------------------------------------


def list_models(server: Server, api_mode: str, within_s: float = FAR_S) -> tuple[Answer, tuple[ModelRow, ...]]:
    """What a provider lists, in its order and with the facts that it states."""
    path = "/v1/models?limit=1000" if api_mode == "anthropic_messages" else "/models"
    answer = server.ask(f"{server.base_url.rstrip('/')}{path}", within_s=within_s)
    return answer, tuple(listed_rows(answer.data))


_WINDOW = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens")
"""vLLM; OpenRouter, Together, Fireworks, Moonshot; Groq; Mistral; Anthropic."""
_OUTPUT = ("max_completion_tokens", "max_output_tokens", "max_tokens")


def listed_rows(data: Json) -> Iterator[ModelRow]:
    """The rows of a list of models as OpenAI-compatible servers give it; what is no row is left out."""
    items = data.get("data") if isinstance(data, Mapping) else data  # Together gives a bare list
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("id"), str):
            yield _listed_row(item)


def _listed_row(item: Mapping[str, Json]) -> ModelRow:
    meta, top, pricing = _inner(item, "meta"), _inner(item, "top_provider"), _inner(item, "pricing")
    inputs = _inner(item, "architecture").get("input_modalities")
    takes = item.get("supported_parameters")
    return ModelRow(
        str(item["id"]),
        _count(item, _WINDOW) or _count(meta, ("n_ctx", "n_ctx_train")),  # llama.cpp
        _count(top, _OUTPUT) or _count(item, _OUTPUT),
        _per_million(pricing.get("prompt")),
        _per_million(pricing.get("completion")),
        _per_million(pricing.get("input_cache_read")),
        _per_million(pricing.get("input_cache_write")),
        images="image" in inputs if isinstance(inputs, list) else None,
        tools="tools" in takes if isinstance(takes, list) else None,
        schemas="structured_outputs" in takes if isinstance(takes, list) else None,
        reasoning="reasoning" in takes if isinstance(takes, list) else None,
    )


def _inner(item: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    value = item.get(name)
    return value if isinstance(value, Mapping) else {}


def _count(item: Mapping[str, Json], names: Sequence[str]) -> int | None:
    found = (item.get(name) for name in names)
    return next((n for n in found if isinstance(n, int) and not isinstance(n, bool) and n > 0), None)


def _per_million(price: Json) -> float | None:
    """OpenRouter states prices in USD a token, as texts; its -1 is "it depends"."""
    try:
        value = float(price)
    except (TypeError, ValueError):
        return None
    return float(f"{value * 1_000_000:.6g}") if value >= 0 else None


# ---- Who answers ----------------------------------------------------------------------------------------------------


def server_of(target: Target) -> Server:
    """Where to ask, and with the target's key in the header that its wire format uses."""
    is_anthropic = target.api_mode == "anthropic_messages"
    own = {"anthropic-version": "2023-06-01"} if is_anthropic else {}
    if target.api_key:
        own |= {"x-api-key": target.api_key} if is_anthropic else {"Authorization": f"Bearer {target.api_key}"}
    return Server(target.base_url, {**own, **target.headers})


def first_server(profiles: Sequence[Profile]) -> tuple[Profile, str] | None:
    """The first local server, in the given order, that lists a model within `FIRST_SERVER_S`; all are asked at once."""
    answers: dict[str, str] = {}

    def look(profile: Profile) -> None:
        _, rows = list_models(Server(profile.base_url), "", FIRST_SERVER_S)
        if rows:
            answers[profile.name] = rows[0].name

    threads = [threading.Thread(target=look, args=(profile,), daemon=True) for profile in profiles]
    for thread in threads:
        thread.start()
    end = time.monotonic() + FIRST_SERVER_S
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    return next(((p, answers[p.name]) for p in profiles if p.name in answers), None)
