"""A title for a session, by the auxiliary model."""

from __future__ import annotations

from hermes.kernel.errors import ProviderError, ToolError, UsageError
from hermes.kernel.interrupts import Token
from hermes.kernel.messages import Message
from hermes.kernel.services import Services
from hermes.kernel.sessions import SessionStore
from hermes.kernel.sidecalls import SideCalls

MOST_CHARS = 60
_EXCERPT_MAX_CHARS = 2000
_SYSTEM = (
    "You name conversations. Answer with a title of three to seven words for the conversation that you are shown, in "
    "its language: what it is about, so that its user finds it again. No quotes, no full stop, nothing else."
)


def suggested_title(services: Services, store: SessionStore, session_id: str) -> str:
    """Ask for a title by how the session begins.

    Raises UsageError for a session without messages, ProviderError when the model gave none.
    """
    messages = store.open(session_id).load().messages
    if not messages:
        raise UsageError(f"session {session_id} has no messages yet, so there is nothing to name it by")
    side = SideCalls(services, session_id, services.emit, lambda usage: None)
    try:
        answer = side.ask(Token(), _beginning(messages), system=_SYSTEM)
    except ToolError as error:
        raise ProviderError(f"no title was made: {error}") from error
    title = " ".join(answer.split()).strip("\"'“”‘’#*.").strip()
    if not title:
        raise ProviderError(f"no title was made: the model answered {answer!r}")
    return title if len(title) <= MOST_CHARS else title[: MOST_CHARS - 1].rstrip() + "…"


def _beginning(messages: tuple[Message, ...]) -> str:
    """The first message of each side that says something, as far as it is needed."""
    sides: dict[str, str] = {}
    for message in messages:
        if message.role != "tool" and message.text.strip():
            sides.setdefault(message.role, message.text.strip()[:_EXCERPT_MAX_CHARS])
    return "\n\n".join(f"<{role}>\n{text}\n</{role}>" for role, text in sides.items())
