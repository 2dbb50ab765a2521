"""What the prompt of a 50-iteration session costs, with the caching policy and without.

    python benchmarks/prompt_cache.py [--iterations 50] [--model claude-sonnet-4-5] [--json FILE]

The agent runs as it is against a loopback server that counts as a provider with marked caches does (Anthropic's and
Bedrock's guides, November 2026): a mark caches everything before it; a request reads the longest cached beginning that
ends at a mark or at most 20 blocks before one; what follows up to the last mark is written; nothing shorter than 1,024
tokens is cached. A token is four bytes here. Costs are by the shipped model table, prices of the given model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tool_loop import load_adapter

BYTES_A_TOKEN = 4
LOOK_BACK_BLOCKS = 20
SMALLEST_TOKENS = 1024
OUTPUT_TOKENS = 60
RESULT_BYTES = 4_000
"""Of each tool result: about a page of a source file."""


LAYOUTS = {"anthropic_messages": "native", "chat_completions": "envelope", "bedrock_converse": "points"}
"""The wire formats with marks, and the layout that each is told to use here (by address it would be none)."""


def blocks_of(body: Any) -> Iterator[tuple[bytes, bool]]:
    """Every block of a request in the order in which a provider reads it, and whether it carries a mark."""
    for tool in body.get("tools") or body.get("toolConfig", {}).get("tools", ()):
        yield from _block(tool)
    system = body.get("system")
    for item in [{"text": system}] if isinstance(system, str) else system or ():
        yield from _block(item)
    for message in body["messages"]:
        content = message.get("content")
        rest = {key: value for key, value in message.items() if key not in ("content", "cache_control")}
        yield from _block(rest)
        for item in [{"text": content}] if isinstance(content, str) else content or ():
            yield from _block(item)


def _block(item: Any) -> Iterator[tuple[bytes, bool]]:
    if "cachePoint" in item:
        yield b"", True
        return
    marked = "cache_control" in item
    yield json.dumps({k: v for k, v in item.items() if k != "cache_control"}, ensure_ascii=False).encode(), marked


class Cache:
    """A provider's prompt cache: which beginnings it holds, and what a request reads and writes of it."""

    def __init__(self) -> None:
        self._held: set[bytes] = set()

    def count(self, body: Any) -> tuple[int, int, int]:
        """Tokens of the prompt: fresh, read, written."""
        digest, size = hashlib.sha256(), 0
        ends: list[tuple[bytes, int]] = []
        marks: list[int] = []
        for data, marked in blocks_of(body):
            if data:
                digest.update(data)
                size += len(data)
                ends.append((digest.digest(), size))
            if marked:
                marks.append(len(ends) - 1)
        read = 0
        for mark in marks:
            for place in range(mark, max(mark - LOOK_BACK_BLOCKS, -1), -1):
                if ends[place][0] in self._held:
                    read = max(read, ends[place][1])
                    break
        cached = read
        for mark in marks:
            key, end = ends[mark]
            if end // BYTES_A_TOKEN >= SMALLEST_TOKENS:
                self._held.add(key)
                cached = max(cached, end)
        tokens = [size // BYTES_A_TOKEN, read // BYTES_A_TOKEN, cached // BYTES_A_TOKEN]
        return tokens[0] - tokens[2], tokens[1], tokens[2] - tokens[1]


def run(adapter: Any, api_mode: str, model: str, policy: str, iterations: int) -> Any:
    """One session of so many calls and an answer; the usage that the agent counted."""
    from hermes.kernel.messages import Usage
    from hermes.testing import ScriptedServer, call, scripted_settings, text

    cache = Cache()

    def answer(request: Any) -> Any:
        fresh, read, written = cache.count(request.body)
        reply = call("noop", x="1") if len(server.requests) <= iterations else text("done")
        return reply.but(usage=Usage(fresh, OUTPUT_TOKENS, read, written))

    with ScriptedServer(answer) as server:
        settings = scripted_settings(server, api_mode=api_mode)
        provider = settings["providers"]["scripted"]
        quirks = {
            "cache_layout": {"chat_completions": "envelope", "bedrock_converse": "points"}.get(api_mode, "native")
        }
        handle = adapter.make(
            provider["base_url"],
            "r" * RESULT_BYTES,
            0,
            {"api_mode": api_mode, "model": model, "quirks": quirks, "prompt_cache": policy},
        )
        with handle() as agent:
            result = agent.run("go")
    if result.answer != "done" or server.problems:
        sys.exit(f"{api_mode}: the session ended with {result.reason}: {result.detail} {server.problems[:3]}")
    return result.usage


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--model", default="claude-sonnet-5-5", help="whose prices count")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
    adapter = load_adapter()
    from hermes.kernel.discovery import scan
    from hermes.kernel.facts import Snapshot
    from hermes.kernel.messages import Usage
    from hermes.kernel.pricing import cost_usd
    from hermes.kernel.providers import Profile, Target

    profile = Profile("anthropic")
    row = Snapshot(scan()).find(profile, options.model)
    priced = Target(f"anthropic:{options.model}", profile, options.model, "", "anthropic_messages", row=row)
    results = {}
    with tempfile.TemporaryDirectory(prefix="hermes-cache-") as name:
        os.environ["HERMES_HOME"] = name
        os.chdir(name)
        for api_mode in LAYOUTS:
            costs = {}
            for policy in ("auto", "never"):
                usage = run(adapter, api_mode, options.model, policy, options.iterations)
                prompt = Usage(usage.input_tokens, 0, usage.cache_read_tokens, usage.cache_write_tokens)
                costs[policy] = cost_usd(priced, prompt)
                share = usage.cache_read_tokens / usage.prompt_tokens
                print(
                    f"{api_mode:19} {policy:5}: {usage.prompt_tokens:,} prompt tokens, {share:.1%} read from the "
                    f"cache, {usage.cache_write_tokens:,} written: input {costs[policy]:.4f} USD",
                    flush=True,
                )
            print(f"{api_mode:19} saved: {1 - costs['auto'] / costs['never']:.1%}")
            results[api_mode] = costs
    if options.json:
        options.json.write_text(json.dumps(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
