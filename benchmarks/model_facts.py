"""Rewrite plugins/providers/models.json, the dated snapshot of what is known of models, from litellm's table.

    pip download litellm==1.110.2 --no-deps -d /tmp/litellm
    python benchmarks/model_facts.py /tmp/litellm/litellm-1.110.2-*.whl 2026-11-30

The table ships in the wheel as `TABLE`, under the MIT licence, whose notice goes with the snapshot. Kept are the chat
models of providers in our catalogue that are not retired at the given date, and the fields that `ModelRow` has.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

TABLE = "litellm/model_prices_and_context_window_backup.json"
TARGET = Path(__file__).parents[1] / "plugins" / "providers" / "models.json"


class Source(NamedTuple):
    """Which rows of the table are a provider's: their `litellm_provider` (a pattern), mode, and the prefix to take off.

    `skip` is a pattern of names (without the prefix) that are no models, or not named so on the wire.
    """

    provider: str
    there: str
    prefix: str = ""
    modes: tuple[str, ...] = ("chat", "responses")
    skip: str = r"$^"


SOURCES = (
    Source("anthropic", "anthropic"),
    Source("azure", "azure", "azure/", skip=r".*/|container|model-router"),
    Source("bedrock", r"bedrock(_converse)?", skip=r".*/|claude-"),
    Source("cerebras", "cerebras", "cerebras/"),
    Source("deepseek", "deepseek", "deepseek/"),
    Source("fireworks", "fireworks_ai", "fireworks_ai/", skip=r"(?!accounts/)"),
    Source("gemini", "gemini", "gemini/", skip=r"lyria|deep-research|gemini-robotics|.*(tts|-exp)"),
    Source("groq", "groq", "groq/", skip=r".*prompt-guard"),
    Source("minimax", "minimax", "minimax/"),
    Source("mistral", "mistral", "mistral/"),
    Source("moonshot", "moonshot", "moonshot/"),
    Source("openai", "openai", skip=r"ft:|.*container|gpt-3|gpt-audio|.*(audio|search-preview|deep-research)"),
    Source("perplexity", "perplexity", "perplexity/", ("responses",)),
    Source("qwen", "dashscope", "dashscope/"),
    Source("together", "together_ai", "together_ai/", skip=r"together-ai-"),
    Source("vertex", r"vertex_ai(-\w+)?_models|vertex_ai(-language-models)?", "vertex_ai/",
           skip=r"claude|medlm|deep-research|gemini-robotics|.*(tts|@)"),
    Source("xai", "xai", "xai/", skip=r".*(beta|experimental)"),
    Source("zai", "zai", "zai/"),
)  # fmt: skip

PRICES = {
    "price_input": ("input_cost_per_token",),
    "price_output": ("output_cost_per_token",),
    "price_cache_read": ("cache_read_input_token_cost", "input_cost_per_token_cache_hit"),
    "price_cache_write": ("cache_creation_input_token_cost",),
}
ABILITIES = {
    "pdf": "supports_pdf_input", "audio": "supports_audio_input", "reasoning": "supports_reasoning",
    "caching": "supports_prompt_caching", "tools": "supports_function_calling", "schemas": "supports_response_schema",
}  # fmt: skip
DEARER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens$")


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        table = json.loads(wheel.read(TABLE))
        licence = next(wheel.read(name).decode() for name in wheel.namelist() if name.endswith("licenses/LICENSE"))
    version = Path(sys.argv[1]).name.split("-")[1]
    head = {
        "source": f"litellm {version} (PyPI), {TABLE}",
        "licence": " ".join(licence[licence.index("MIT License") :].split()),
        "date": sys.argv[2],
    }
    models = {source.provider: dict(_rows(table, source, sys.argv[2])) for source in SOURCES}
    TARGET.write_text(_as_lines(head, models), encoding="utf-8")
    print(f"{TARGET}: {sum(map(len, models.values()))} models, {TARGET.stat().st_size / 1000:.0f} kB")
    return 0


def _rows(table: Mapping[str, Any], source: Source, date: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, row in table.items():
        ours = name.removeprefix(source.prefix)
        is_theirs = re.fullmatch(source.there, str(row.get("litellm_provider")))
        if not is_theirs or row.get("mode") not in source.modes or re.match(source.skip, ours):
            continue
        until = row.get("deprecation_date") or ""
        if not until or until > date:
            yield ours, {**_facts(row), **({"note": f"until {until}"} if until else {})}


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """What our table holds of one row of theirs.

    They leave out what a model cannot do, and what nobody filled in. Only for images is the first meant, where a row
    has a window and any ability at all.
    """
    facts: dict[str, Any] = {
        "window_tokens": row.get("max_input_tokens"),
        "output_tokens": row.get("max_output_tokens"),
    }
    tiers = row.get("tiered_pricing")
    priced = {**row, **tiers[0]} if tiers else row
    for ours, theirs in PRICES.items():
        facts[ours] = next((_per_million(priced[name]) for name in theirs if priced.get(name) is not None), None)
    dearer = [int(found[1]) * 1000 for name in row if (found := DEARER.match(name))]
    if tiers:
        dearer.append(int(tiers[0]["range"][1]))
    facts["priced_to_tokens"] = min(dearer, default=None)
    facts["images"] = _takes_images(row)
    facts |= {ours: row.get(theirs) for ours, theirs in ABILITIES.items()}
    return {name: value for name, value in facts.items() if value is not None}


def _takes_images(row: Mapping[str, Any]) -> bool | None:
    if "supported_modalities" in row:
        return "image" in row["supported_modalities"]
    is_filled_in = "max_input_tokens" in row and any(name.startswith("supports_") for name in row)
    return bool(row.get("supports_vision")) if is_filled_in else None


def _per_million(price: float) -> float:
    return float(f"{price * 1_000_000:.6g}")


def _as_lines(head: Mapping[str, str], models: Mapping[str, Mapping[str, Any]]) -> str:
    """JSON with one model a line, so that a new snapshot can be read as a diff."""
    lines = [f"{json.dumps(name)}: {json.dumps(text, ensure_ascii=False)}," for name, text in head.items()]
    blocks = []
    for provider, rows in models.items():
        inner = ",\n".join(
            f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in sorted(rows.items())
        )
        blocks.append(f"{json.dumps(provider)}: {{\n{inner}\n}}")
    return "{\n" + "\n".join(lines) + '\n"models": {\n' + ",\n".join(blocks) + "\n}\n}\n"


if __name__ == "__main__":
    raise SystemExit(main())
