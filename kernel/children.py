"""Children of a conversation (`delegate_task`): each a turn of its own, in a session and a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hermes.kernel.conversation import Conversation, Standing
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import HermesError
from hermes.kernel.interrupts import Token
from hermes.kernel.messages import Usage
from hermes.kernel.roles import ChildResult, ChildTask, DelegateInfo
from hermes.kernel.running import Running
from hermes.kernel.services import Services
from hermes.kernel.sessions import SessionStore

_LOG = logging.getLogger("hermes.agent")

CHILD_PROMPT = (
    "You are working on one task for another agent, which reads only your final answer. Do the task completely, then "
    "answer with what you found or did, where, and what is left."
)
CHILD_GRACE_S = 1.0
"""How long a stopped parent waits for a child's turn to be closed; a child's own grace is well below it."""


@dataclass(frozen=True, slots=True)
class Children:
    """Spawns children whose sessions are kept in `store`."""

    services: Services
    store: SessionStore

    def spawn(self, parent: Conversation, running: Running, tasks: Sequence[ChildTask]) -> Sequence[ChildResult]:
        """Run children to their end, side by side; one result a task, in their order."""
        running.has_children = True
        ids = [self._create(parent, running, task) for task in tasks]
        parent.log.link_child(running.call.id, ",".join(ids))
        results: list[ChildResult | None] = [None] * len(tasks)

        def work(index: int) -> None:
            try:
                results[index] = self._run(parent, running, ids[index], tasks[index])
            except HermesError as error:
                _LOG.error("child %s failed: %s", ids[index], error)
                results[index] = ChildResult(ids[index], error.reason, None, 0, 0.0, Usage())

        threads = [
            threading.Thread(target=work, args=(i,), name=f"hermes-child-{ids[i]}", daemon=True)
            for i in range(len(tasks))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            _join(thread, running.token)
        done = [r or _failed(ids[i], running.token) for i, r in enumerate(results)]
        parent.runtime.child_usage.extend(r.usage for r in done)
        return done

    def _create(self, parent: Conversation, running: Running, task: ChildTask) -> str:
        return self.store.create(
            directory=str(self.services.places.cwd),
            model=self.services.chain()[0].name,
            source="child",
            title=task.goal[:60],
            parent=parent.log.id,
            parent_call=running.call.id,
        )

    def _run(self, parent: Conversation, running: Running, session_id: str, task: ChildTask) -> ChildResult:
        began = time.monotonic()
        plugins = self.services.plugins
        info = DelegateInfo(parent.log.id, running.call.id, session_id, task.goal)
        plugins.observe("before_delegate", delegate=info)
        standing = Standing(parent.standing.depth + 1, CHILD_PROMPT, self.services.settings.delegate.iterations)
        child = Conversation(self.services, self.store, standing, self.spawn)
        token = Token(running.token)
        try:
            child.open(self.store.open(session_id))
            text = f"{task.goal}\n\nContext:\n{task.context}" if task.context.strip() else task.goal
            try:
                result = child.run(child.said(text), token)
            finally:
                child.close()
        finally:
            token.close()
        seconds = time.monotonic() - began
        after = replace(info, reason=result.reason.value, seconds=seconds, usage=result.usage)
        plugins.observe("after_delegate", delegate=after)
        return ChildResult(
            session_id, result.reason, result.answer or result.partial or None, result.iterations, seconds, result.usage
        )


def _join(thread: threading.Thread, token: Token) -> None:
    """Wait for a child; once the parent is stopped, no longer than the grace."""
    while thread.is_alive() and not token.wait(0.0):
        thread.join(0.05)
    thread.join(CHILD_GRACE_S)


def _failed(session_id: str, token: Token) -> ChildResult:
    """What is told of a child that gave no result: its thread raised, or it was left behind by a stop."""
    reason = token.reason or EndReason.INTERNAL
    return ChildResult(session_id, reason, None, 0, 0.0, Usage())
