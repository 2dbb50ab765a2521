"""The model of `kill_runs.py`: a scripted server in a process of its own, whose replies follow from the request alone.

    python benchmarks/kill_model.py     # prints {"port": …}; at the end of stdin what was wrong, as {"problems": […]}

So a reply that a kill lost is given again with the same calls, and a call that runs twice leaves its mark twice. The
server is strict in each of the four wire formats: what a resumed run sends must be a whole conversation.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence

from hermes.testing import Call, Reply, Request, ScriptedServer, calls, text

MODELS = {
    "chat_completions": "gpt-4o",
    "codex_responses": "gpt-5",
    "anthropic_messages": "claude-sonnet-4-5",
    "bedrock_converse": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}
"""A model that is asked in each wire format."""

_PARENT = re.compile(rb"[Jj]ob (s\d+t\d+)\b")
_CHILD = re.compile(rb"[Jj]ob (s\d+t\d+[ab])\b")


def answer(request: Request) -> Reply:
    """The next step of the job that was asked for last; a step is done when its calls are in the conversation."""
    jobs = _PARENT.findall(request.raw) or _CHILD.findall(request.raw)
    job = jobs[-1].decode()
    done = {int(step) for step in re.findall(rb"\b%s\.(\d)\." % jobs[-1], request.raw)}
    steps = child_steps(job) if job[-1] in "ab" else steps_of(job)
    left = [step for number, step in enumerate(steps) if number not in done]
    return calls(*left[0]).but(thinking=f"on with {job}") if left else text(f"Done: {job}.")


def steps_of(job: str) -> Sequence[Sequence[Call]]:
    """What the tools of one job are to do: every call bears a name of its own, JOB.STEP.NUMBER."""
    marks, notes = f"marks-{job.partition('t')[0]}.txt", f"{job}.txt"
    return (
        (_mark(f"{job}.0.0"), _mark(f"{job}.0.1"), Call("look", {"x": f"{job}.0.2"})),
        (
            Call("write_file", {"path": notes, "content": f"{job}.1.0\nthe end\n"}),
            Call("terminal", {"command": f"echo {job}.1.1 >> {marks}"}),
        ),
        (Call("delegate_task", {"tasks": [_task(f"{job}a", f"{job}.2.0"), _task(f"{job}b", f"{job}.2.1")]}),),
        (
            Call("patch", {"path": notes, "old_string": "the end\n", "new_string": f"{job}.3.0\nthe end\n"}),
            _mark(f"{job}.3.1"),
        ),
    )


def child_steps(job: str) -> Sequence[Sequence[Call]]:
    return ((_mark(f"{job}.0.0"), Call("look", {"x": f"{job}.0.1"})),)


def _mark(x: str) -> Call:
    return Call("mark", {"x": x})


def _task(job: str, name: str) -> dict[str, str]:
    return {"goal": f"Do job {job}.", "context": name}


def main() -> None:
    with ScriptedServer(answer) as server:
        print(json.dumps({"port": server.port}), flush=True)
        sys.stdin.read()
        print(json.dumps({"requests": len(server.requests), "problems": server.problems}), flush=True)


if __name__ == "__main__":
    main()
