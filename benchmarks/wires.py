"""Measure each wire format: CPU of an iteration against posting the same bytes through the same SDK.

    python benchmarks/wires.py [--check] [--json FILE] [FORMAT...]

For each format one turn of 510 streamed iterations with a history that grows to 1 MB, against a scripted server in
another process. What iterations 10 and 500 cost without the store's appends (median of the iterations around them), in
proportion to a bare loop that posts the very same bytes through the vendor's SDK as it is and reads the streamed reply
as the SDK gives it (median of 9), in the same process: bar 1.5.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tool_loop import GROWTH_BAR, LAST, POINTS, growing_turn, load_adapter, measure_posts, openai_sdk

MODEL = "bench"


# ---- The server, in a process of its own ----------------------------------------------------------------------------


def serve() -> None:
    """Answer `LAST` requests with a call, the next with "done", and every later one with a call again."""
    from hermes.testing import ScriptedServer, call, text

    seen = 0

    def answer(request: Any) -> Any:
        nonlocal seen
        seen += 1
        return text("done") if seen == LAST + 1 else call("noop", x=str(seen))

    with ScriptedServer(answer, strict=False) as server:
        print(server.port, flush=True)
        sys.stdin.read()  # until the parent closes it


@contextmanager
def running_server() -> Iterator[int]:
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            process.terminate()


# ---- The bare loops -------------------------------------------------------------------------------------------------


@contextmanager
def anthropic_sdk(base_url: str) -> Iterator[Callable[[bytes], None]]:
    import anthropic
    from anthropic.types import RawMessageStreamEvent

    kind: Any = RawMessageStreamEvent
    http_client = anthropic.DefaultHttpxClient(trust_env=False)
    with anthropic.Anthropic(base_url=base_url, api_key="x", max_retries=0, http_client=http_client) as client:

        def post(body: bytes) -> None:
            options: Any = {"headers": {"Content-Type": "application/json"}}
            stream = client.post(
                "/v1/messages",
                content=body,
                cast_to=kind,
                options=options,
                stream=True,
                stream_cls=anthropic.Stream[kind],
            )
            for _ in stream:
                pass

        yield post


@contextmanager
def boto(base_url: str) -> Iterator[Callable[[bytes], None]]:
    import boto3
    from botocore.config import Config

    config = Config(retries={"total_max_attempts": 1}, proxies={})
    client = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=base_url, config=config)
    ready = b""

    def put(params: Any, **_: Any) -> None:
        params["body"] = ready

    client.meta.events.register("before-call.bedrock-runtime.ConverseStream", put)

    def post(body: bytes) -> None:
        nonlocal ready
        ready = body
        reply = client.converse_stream(modelId=MODEL, messages=[{"role": "user", "content": [{"text": "x"}]}])
        for _ in reply["stream"]:
            pass

    yield post
    client.close()


@contextmanager
def openai_at(path: str, base_url: str) -> Iterator[Callable[[bytes], None]]:
    with openai_sdk(base_url) as post:
        yield functools.partial(post, path)


FORMATS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "chat_completions": ("/v1", functools.partial(openai_at, "/chat/completions")),
    "codex_responses": ("/v1", functools.partial(openai_at, "/responses")),
    "anthropic_messages": ("", anthropic_sdk),
    "bedrock_converse": ("", boto),
}
"""What follows the address in a base URL, and the bare loop."""


def measure(adapter: Any, api_mode: str) -> dict[int, dict[str, float]]:
    """For each point: milliseconds of CPU of the iteration, of the store in it, and of the bare post."""
    suffix, sdk = FORMATS[api_mode]
    with running_server() as port:
        base_url = f"http://127.0.0.1:{port}{suffix}"
        found, bodies = growing_turn(adapter, base_url, api_mode, store="memory")
        with sdk(base_url) as post:
            bare = measure_posts(bodies, post)
    for point in POINTS:
        found[point] |= {"post_ms": bare[point]}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"of {', '.join(FORMATS)}; all unless told")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    for name in options.formats:
        if name not in FORMATS:
            parser.error(f"no format {name!r}; there are {', '.join(FORMATS)}")
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
    adapter = load_adapter()
    results, passed = {}, True
    with tempfile.TemporaryDirectory(prefix="hermes-wires-") as name:
        os.environ["HERMES_HOME"] = name
        os.chdir(name)
        for api_mode in options.formats or FORMATS:
            results[api_mode] = measure(adapter, api_mode)
            for point, row in results[api_mode].items():
                own_ms = row["iteration_ms"] - row["store_ms"]
                ratio = own_ms / row["post_ms"]
                passed = passed and ratio <= GROWTH_BAR
                print(
                    f"{api_mode:19} iteration {point:3}: {own_ms:.2f} ms without the store; posting the same "
                    f"{row['kilobytes']:.0f} kB: {row['post_ms']:.2f} ms; ratio {ratio:.2f} (bar {GROWTH_BAR})",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(results), encoding="utf-8")
    return int(options.check and not passed)


if __name__ == "__main__":
    sys.exit(main())
