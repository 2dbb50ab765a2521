"""Drive the embedded model as a run would: the real server, wire form and files tools, without the agent around them.

    HERMES_HOME=… python -P benchmarks/local_model.py [--model NAME] [--choices]

Prints tokens a second and the answer to: read a file of 34 lines with read_file, and name the hooks that it defines.
`--choices` asks ten prompts that need one certain tool and four that need none, and counts the right ones.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.kernel.providers import Endpoint, ToolSchema
from hermes.kernel.textcalls import calls_in
from hermes.plugins.providers.local import LocalProvider
from hermes.plugins.tools.files import register_tools
from hermes.plugins.wire.chat_completions.grammar import ANSWER, grammar_for, render_tools_prompt

HOOKS = ("before_session", "after_session", "before_turn", "after_turn", "decide_tool_call", "around_tool_call")
QUESTION = "Read the file hooks.py and list the names of the hooks that it defines."
MOST_ITERATIONS = 4

CHOICES: tuple[tuple[str, str | None], ...] = (
    ("Read hookspecs.py and list the hooks that it defines.", "read_file"),
    ("What does the file README.md say?", "read_file"),
    ("What is the version in pyproject.toml?", "read_file"),
    ("Show me lines 10 to 20 of kernel/turn.py", "read_file"),
    ("Create a file hello.txt that contains: Hello world", "write_file"),
    ("Write a Python script fib.py that prints the first ten Fibonacci numbers.", "write_file"),
    ("In main.py replace the text foo by bar.", "patch"),
    ("Which files here contain the word TODO?", "search_files"),
    ("Find all files named *.json", "search_files"),
    ("Where is the function parse_arguments defined?", "search_files"),
    ("What is the capital of France?", None),
    ("Hello, how are you?", None),
    ("What is 2 + 3?", None),
    ("Explain in one sentence what recursion is.", None),
)


def hook_file() -> str:
    """34 lines that define six hooks."""
    lines = ['"""Hooks of the example."""', "", "import pluggy", "", 'spec = pluggy.HookspecMarker("example")']
    for name in HOOKS:
        lines += ["", "@spec", f"def {name}(subject):", f'    """Called at {name.replace("_", " ")}."""']
    while len(lines) < 34:
        lines.append("# nothing more")
    return "\n".join(lines[:34]) + "\n"


class Conversation:
    def __init__(self, endpoint: Endpoint, tools: Sequence[ToolSchema]) -> None:
        self._endpoint, self._names = endpoint, [tool.name for tool in tools]
        self._grammar, self._system = grammar_for(tools), render_tools_prompt(tools)
        self.timings: list[dict[str, Any]] = []

    def system(self, directory: str) -> dict[str, str]:
        identity = "You are Hermes, an assistant that works on the user's computer with tools."
        return {"role": "system", "content": f"{identity} Working directory: {directory}\n\n{self._system}"}

    def ask(self, messages: Sequence[dict[str, Any]], may_call: bool = True) -> tuple[str, list[tuple[str, str]]]:
        grammar = self._grammar if may_call else grammar_for(())
        body = {"messages": messages, "grammar": grammar, "temperature": 0, "max_tokens": 300}
        request = urllib.request.Request(
            f"{self._endpoint.base_url}/chat/completions",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._endpoint.api_key}"},
        )
        with urllib.request.urlopen(request) as answer:
            reply = json.load(answer)
        self.timings.append(reply["timings"])
        said = reply["choices"][0]["message"]["content"]
        text, calls = calls_in(said, (*self._names, ANSWER.name))
        if calls and calls[0][0] == ANSWER.name:
            return json.loads(calls[0][1])["text"], []
        return text, calls


def answer(conversation: Conversation, question: str, directory: Path) -> str:
    """The loop in small: calls are run until the model answers; a repeated call is answered by a forced answer."""
    messages: list[dict[str, Any]] = [conversation.system(str(directory)), {"role": "user", "content": question}]
    seen: set[tuple[str, str]] = set()
    for iteration in range(MOST_ITERATIONS):
        text, calls = conversation.ask(messages, may_call=iteration < MOST_ITERATIONS - 1)
        if not calls:
            return text
        if calls[0] in seen:
            text, _ = conversation.ask(messages, may_call=False)
            return text
        seen.add(calls[0])
        name, arguments = calls[0]
        print(f"  call {name} {arguments}", flush=True)
        path = directory / str(json.loads(arguments).get("path", ""))
        result = path.read_text(encoding="utf-8") if path.is_file() else f"there is no file {path.name}"
        numbered = "\n".join(f"{number}|{line}" for number, line in enumerate(result.splitlines(), 1))
        function = {"name": name, "arguments": arguments}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": numbered},
        ]
    return ""


def show_rates(timings: Sequence[dict[str, Any]]) -> None:
    read, read_ms = sum(t["prompt_n"] for t in timings), sum(t["prompt_ms"] for t in timings)
    wrote, wrote_ms = sum(t["predicted_n"] for t in timings), sum(t["predicted_ms"] for t in timings)
    print(f"read {read} tokens at {read / read_ms * 1000:.0f}/s, wrote {wrote} at {wrote / wrote_ms * 1000:.0f}/s")


def count_choices(conversation: Conversation) -> None:
    right = [0, 0]
    for question, wanted in CHOICES:
        messages = [conversation.system("/work"), {"role": "user", "content": question}]
        text, calls = conversation.ask(messages)
        got = calls[0][0] if calls else None
        right[wanted is None] += got == wanted
        print(f"  {'ok ' if got == wanted else 'BAD'} {question} -> {calls[0] if calls else text[:80]!r}", flush=True)
    print(f"right calls {right[0]} of 10, plain text {right[1]} of 4")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--choices", action="store_true")
    options = parser.parse_args()
    provider = LocalProvider()
    begun = time.perf_counter()
    endpoint = provider.connect(options.model, lambda what, share: None, lambda: False)
    print(f"loaded in {time.perf_counter() - begun:.1f} s")
    try:
        conversation = Conversation(endpoint, [tool.schema for tool in register_tools()])
        if options.choices:
            count_choices(conversation)
        else:
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "hooks.py").write_text(hook_file(), encoding="utf-8")
                begun = time.perf_counter()
                said = answer(conversation, QUESTION, Path(folder))
                print(said)
                named = sum(hook in said for hook in HOOKS)
                print(f"named {named} of {len(HOOKS)} hooks in {time.perf_counter() - begun:.1f} s")
        show_rates(conversation.timings)
    finally:
        provider.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
