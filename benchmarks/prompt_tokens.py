"""Print the size of the default system prompt and of the kernel tools' schemas, in tokens (characters / 4).

    python benchmarks/prompt_tokens.py            # the default sections, without project files and memory
    python benchmarks/prompt_tokens.py DIRECTORY  # as in that directory

Goal: the prompt without context files under 700 tokens.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

from hermes.kernel.config.settings import DelegateSettings, PromptSettings
from hermes.kernel.prompt import build
from hermes.kernel.roles import PromptContext
from hermes.kernel.tools import kernel_tools

GOAL_TOKENS = 700
SECTIONS = (
    "identity", "caller", "memory_guidance", "search_guidance", "tool_discipline",
    "context_files", "memory", "environment", "append",
)  # fmt: skip


def tokens(text: str) -> int:
    return -(-len(text) // 4)


def main() -> int:
    given = sys.argv[1:]
    settings = PromptSettings()
    tools = kernel_tools(memory=True, search=True, can_ask=True, depth_left=1, limits=DelegateSettings())
    context = PromptContext(
        session_id="20261130-120000-a1b2c3",
        cwd=Path(given[0]).resolve() if given else Path("/home/somebody/work/project"),
        home=Path("/nonexistent"),
        model="claude-sonnet-4.5",
        provider="openrouter",
        platform="cli",
        date="2026-11-30",
        tool_names=frozenset({tool.name for tool in tools} | {"read_file", "terminal"}),
        identity=settings.identity,
        append=settings.append,
        caller=None,
        context_files=settings.context_files if given else (),
        section_max_chars=settings.section_max_chars,
    )
    sections = [
        s for name in SECTIONS for s in import_module(f"hermes.plugins.prompt.{name}").register_prompt_sections()
    ]
    for section in sections:
        print(f"{section.name:18}{tokens(section.build(context) or ''):>6}")
    whole = tokens(build(sections, SECTIONS, context, lambda name, cause: print(f"{name} failed: {cause}")))
    print(f"{'system prompt':18}{whole:>6}   goal {GOAL_TOKENS}")
    for tool in tools:
        schema = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        print(f"{tool.name:18}{tokens(json.dumps(schema, separators=(',', ':'))):>6}")
    return 0 if given or whole <= GOAL_TOKENS else 1


if __name__ == "__main__":
    sys.exit(main())
