"""The provider `local`: a model on this machine, run by a llama.cpp server (wheel xllamacpp) that we start ourselves.

No key, no network. The server speaks the OpenAI form, so the wire format is `chat_completions`. Small models choose
tools badly by themselves, so the profile has them offered by a grammar, and keeps the prompt short.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hermes import hookimpl
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ProviderError
from hermes.kernel.providers import Endpoint, ModelRow, Profile, Report
from hermes.plugins.providers.local import server, weights
from hermes.plugins.providers.local.rows import known_rows, row_of

WINDOW_TOKENS = 8192
OUTPUT_TOKENS = 2048
"""For a GGUF of the user's own. Without a cap a small model that repeats itself fills its whole window."""
MOST_THREADS = 8
INSTALL_HINT = "pip install 'hermes-kernel[local]'"


def _profile() -> Profile:
    embedded = next(row for row in known_rows() if row.auto)
    return Profile(
        name="local",
        title="Local model (llama.cpp inside hermes)",
        api_mode="chat_completions",
        default_model=embedded.name,
        local=True,
        quirks={"offering": embedded.offering},
        defaults={
            "window_tokens": WINDOW_TOKENS,
            "prompt_budget_tokens": 1500,
            "toolsets": ["files"],
            "sections": ["identity", "environment"],
        },
        models=tuple(ModelRow(r.name, r.window_tokens, r.output_tokens, 0.0, 0.0, note=r.note) for r in known_rows()),
    )


class LocalProvider:
    """See `kernel/providers.py` Provider; `fetch` and `stored` are what `hermes models` asks for besides."""

    def __init__(self) -> None:
        self.profile = _profile()
        self._lock = threading.Lock()
        self._held: dict[str, tuple[server.LlamaServer, Report]] = {}

    def available(self) -> str | None:
        """The embedded default when it is fetched, else the first GGUF of the user's own, by name."""
        if not _can_run():
            return None
        stored = weights.stored_weights()
        known = {row.name: row.auto for row in known_rows()}
        embedded = [name for name, auto in known.items() if auto and name in stored]
        return next(iter(embedded + [name for name in stored if name not in known]), None)

    def models(self) -> Sequence[ModelRow]:
        """The rows of models.json, then what else is in the models directory."""
        own = [name for name in weights.stored_weights() if row_of(name) is None]
        return (*self.profile.models, *(ModelRow(name, WINDOW_TOKENS, OUTPUT_TOKENS, 0.0, 0.0) for name in own))

    def stored(self) -> Mapping[str, Path]:
        return weights.stored_weights()

    def fetch(self, what: str, report: Report) -> Path:
        return weights.fetch(what, report)

    def connect(self, model: str, report: Report, cancelled: Callable[[], bool]) -> Endpoint:
        """Start the server for this model, or join the one that runs; at once when it is up already.

        `report` goes on being called, from another thread, while prompts are read, until `close` or the next connect.
        """
        launch = self._launch(model)
        running = self._hold(launch, report)
        url = running.wait_ready(cancelled)
        return Endpoint(f"{url}/v1", running.api_key, window_tokens=launch.window_tokens)

    def close(self) -> None:
        with self._lock:
            held, self._held = list(self._held.values()), {}
        for running, report in held:
            running.unlisten(report)
            server.release(running)

    def _hold(self, launch: server.Launch, report: Report) -> server.LlamaServer:
        """Our one share of the server; a server that died is replaced."""
        with self._lock:
            running, old_report = self._held.get(launch.name, (None, None))
            if running and old_report:
                running.unlisten(old_report)
            if running is None or not running.alive:
                if running:
                    server.release(running)
                running = server.acquire(launch)
            self._held[launch.name] = (running, report)
            running.listen(report)
            return running

    def _launch(self, model: str) -> server.Launch:
        if not _can_run():
            raise ProviderError(
                f"the local model needs the package xllamacpp: {INSTALL_HINT}", reason=EndReason.SETTINGS
            )
        name = (self.available() or self.profile.default_model) if model in ("", "auto") else model
        path = weights.stored_weights().get(name)
        row = row_of(name)
        if path is None:
            size = f" ({row.size_bytes / 1e6:,.0f} MB)" if row else ""
            raise ProviderError(
                f"the model {name!r} is not on this machine: `hermes models fetch {name}`{size}, "
                "or `hermes models list` for what is",
                reason=EndReason.SETTINGS,
            )
        return server.Launch(
            name=name,
            model=str(path.resolve()),
            window_tokens=row.window_tokens if row else WINDOW_TOKENS,
            output_tokens=row.output_tokens if row else OUTPUT_TOKENS,
            temperature=row.temperature if row else 0.0,
            chat_template=row.chat_template if row else None,
            threads=(row.threads if row else None) or max(2, min(MOST_THREADS, (os.cpu_count() or 2) // 2)),
        )


def _can_run() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


@hookimpl
def register_providers() -> list[LocalProvider]:
    return [LocalProvider()]
