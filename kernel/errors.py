"""The exception tree.

HermesError
├── SettingsError            hermes.yaml, a flag or a variable is wrong (exit 3); `problems` has one line each
├── UsageError               the caller asked for something that cannot be (exit 2)
│   ├── AgentBusy            a second turn was started while one runs
│   ├── SessionBusy          the session's turn runs in another process (names it)
│   └── SessionNotFound      no session has this id, or several do
├── PluginError              a plugin is missing, refused or failed, and was required (exit 11)
├── StoreError               a store cannot be opened or written (exit 12 where settings say so)
├── ReplayDiverged           a recorded turn, driven again, asks for something else than it did
├── ProviderError            a provider could not be reached or set up; carries a fault kind
└── ToolError                what a tool raises on purpose: the model reads its text

BaseException
├── StopRun                  the one way in which a plugin may stop a run on purpose
└── Stopped (effects.py)     how the runtime tells a turn that it was interrupted
"""

from __future__ import annotations

from collections.abc import Sequence

from hermes.kernel.endings import EndReason


class HermesError(Exception):
    """The root. The message says what, which, and what to do next; `reason` is how a run ends by it."""

    reason: EndReason = EndReason.INTERNAL


class SettingsError(HermesError):
    """Settings are wrong; every problem at once, each `file:line:column: key: what is wrong`."""

    reason = EndReason.SETTINGS

    def __init__(self, problems: Sequence[str] | str) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class UsageError(HermesError):
    reason = EndReason.USAGE


class AgentBusy(UsageError):
    """Raised by `Agent.run` while another turn of the same agent runs."""


class SessionBusy(UsageError):
    """Raised when a session's turn runs in another process.

    `holder` names the process, such as "process 4711 on host"; `seconds` is how long it has run.
    """

    def __init__(self, session_id: str, holder: str) -> None:
        self.session_id, self.holder = session_id, holder
        super().__init__(f"session {session_id} has a turn running in {holder}; wait for it, stop it, or use --fork")


class SessionNotFound(UsageError):
    pass


class PluginError(HermesError):
    """`plugin`, `distribution` and `cause` are in the message too."""

    reason = EndReason.PLUGIN

    def __init__(self, message: str, *, plugin: str = "", distribution: str = "") -> None:
        self.plugin, self.distribution = plugin, distribution
        super().__init__(message)


class StoreError(HermesError):
    reason = EndReason.STORE_FAILED


class ReplayDiverged(HermesError):
    """Raised by `replay` at `step` (from 1, over all lives of the turn) of a recorded turn.

    `expected` and `found` are digests of effects.
    """

    def __init__(self, turn: int, step: int, expected: str, found: str) -> None:
        self.turn, self.step, self.expected, self.found = turn, step, expected, found
        super().__init__(
            f"turn {turn} went another way at step {step}: recorded was [{expected}], now it is [{found}]; it was "
            "recorded by a hermes whose loop decides differently"
        )


class ProviderError(HermesError):
    """A provider cannot be set up (no key, no server, no such model). `kind` is a `FaultKind` value."""

    reason = EndReason.PROVIDER_FAILED

    def __init__(self, message: str, *, kind: str = "unknown", reason: EndReason | None = None) -> None:
        self.kind = kind
        if reason is not None:
            self.reason = reason
        super().__init__(message)


class ToolError(HermesError):
    """Raise it in a tool to tell the model what went wrong and what to do about it."""


class StopRun(BaseException):
    """Raised by a plugin or a tool to stop the whole run on purpose; takes the path of an interrupt."""

    def __init__(self, why: str = "") -> None:
        self.why = why
        super().__init__(why)
