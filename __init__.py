"""Hermes: a plugin-first agent runtime. What stands here is what a plugin author may import; nothing else is public.

Names are resolved on first use, so `import hermes` reads this file and no other.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing would cost `hermes --version` a fifth of its time

__version__ = "0.1.0"

_HOME: dict[str, str] = {
    # what a plugin is written with
    "hookimpl": "hermes.hookspecs",
    "tool": "hermes.kernel.toolspec",
    # tools
    "Tool": "hermes.kernel.roles",
    "ToolContext": "hermes.kernel.roles",
    "ToolReturn": "hermes.kernel.roles",
    "ToolError": "hermes.kernel.errors",
    "ToolSchema": "hermes.kernel.providers",
    "Finding": "hermes.kernel.roles",
    "Resources": "hermes.kernel.roles",
    "Cancelled": "hermes.kernel.roles",
    "ChildTask": "hermes.kernel.roles",
    "ChildResult": "hermes.kernel.roles",
    # the conversation
    "Message": "hermes.kernel.messages",
    "Text": "hermes.kernel.messages",
    "Image": "hermes.kernel.messages",
    "Thinking": "hermes.kernel.messages",
    "Refusal": "hermes.kernel.messages",
    "ToolCall": "hermes.kernel.messages",
    "ToolResult": "hermes.kernel.messages",
    "Replay": "hermes.kernel.messages",
    "ModelRequest": "hermes.kernel.messages",
    "ModelReply": "hermes.kernel.messages",
    "StopReason": "hermes.kernel.messages",
    "Usage": "hermes.kernel.messages",
    # providers and wire formats
    "Profile": "hermes.kernel.providers",
    "ModelRow": "hermes.kernel.providers",
    "Target": "hermes.kernel.providers",
    "Parameters": "hermes.kernel.providers",
    "Timeouts": "hermes.kernel.providers",
    "Delta": "hermes.kernel.providers",
    "Stream": "hermes.kernel.providers",
    "WireFormat": "hermes.kernel.providers",
    "WireFault": "hermes.kernel.providers",
    "Provider": "hermes.kernel.providers",
    "Endpoint": "hermes.kernel.providers",
    # the other roles
    "MemoryBackend": "hermes.kernel.roles",
    "MemoryOperation": "hermes.kernel.roles",
    "MemoryOutcome": "hermes.kernel.roles",
    "PromptSection": "hermes.kernel.roles",
    "PromptContext": "hermes.kernel.roles",
    "ContextEngine": "hermes.kernel.roles",
    "Platform": "hermes.kernel.roles",
    "BatchEngine": "hermes.kernel.roles",
    "SessionStore": "hermes.kernel.sessions",
    "SessionLog": "hermes.kernel.sessions",
    "SessionInfo": "hermes.kernel.sessions",
    "StoreFactory": "hermes.kernel.sessions",
    # what hooks see and answer
    "ModelCallInfo": "hermes.kernel.roles",
    "ToolCallInfo": "hermes.kernel.roles",
    "TurnInfo": "hermes.kernel.roles",
    "CompressionInfo": "hermes.kernel.roles",
    "DelegateInfo": "hermes.kernel.roles",
    "Fault": "hermes.kernel.effects",
    "FaultKind": "hermes.kernel.effects",
    "RecoveryChoice": "hermes.kernel.effects",
    "Objection": "hermes.kernel.effects",
    "CallOpinion": "hermes.kernel.effects",
    "ApprovalRequest": "hermes.kernel.effects",
    # running an agent
    "Agent": "hermes.kernel.agent",
    "TurnResult": "hermes.kernel.agent",
    "Settings": "hermes.kernel.config.settings",
    "EndReason": "hermes.kernel.endings",
    "HermesError": "hermes.kernel.errors",
    "SettingsError": "hermes.kernel.errors",
    "UsageError": "hermes.kernel.errors",
    "AgentBusy": "hermes.kernel.errors",
    "SessionBusy": "hermes.kernel.errors",
    "SessionNotFound": "hermes.kernel.errors",
    "PluginError": "hermes.kernel.errors",
    "StoreError": "hermes.kernel.errors",
    "ProviderError": "hermes.kernel.errors",
    "StopRun": "hermes.kernel.errors",
}
"""Public name → the module that it lives in. A test holds the block below against it."""

_MODULES = {"errors": "hermes.kernel.errors", "events": "hermes.kernel.events"}

__all__ = ["__version__", *_HOME, *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from typing import Any

    from hermes.hookspecs import hookimpl as hookimpl
    from hermes.kernel import errors as errors
    from hermes.kernel import events as events
    from hermes.kernel.agent import Agent as Agent
    from hermes.kernel.agent import TurnResult as TurnResult
    from hermes.kernel.config.settings import Settings as Settings
    from hermes.kernel.effects import ApprovalRequest as ApprovalRequest
    from hermes.kernel.effects import CallOpinion as CallOpinion
    from hermes.kernel.effects import Fault as Fault
    from hermes.kernel.effects import FaultKind as FaultKind
    from hermes.kernel.effects import Objection as Objection
    from hermes.kernel.effects import RecoveryChoice as RecoveryChoice
    from hermes.kernel.endings import EndReason as EndReason
    from hermes.kernel.errors import AgentBusy as AgentBusy
    from hermes.kernel.errors import HermesError as HermesError
    from hermes.kernel.errors import PluginError as PluginError
    from hermes.kernel.errors import ProviderError as ProviderError
    from hermes.kernel.errors import SessionBusy as SessionBusy
    from hermes.kernel.errors import SessionNotFound as SessionNotFound
    from hermes.kernel.errors import SettingsError as SettingsError
    from hermes.kernel.errors import StopRun as StopRun
    from hermes.kernel.errors import StoreError as StoreError
    from hermes.kernel.errors import ToolError as ToolError
    from hermes.kernel.errors import UsageError as UsageError
    from hermes.kernel.messages import Image as Image
    from hermes.kernel.messages import Message as Message
    from hermes.kernel.messages import ModelReply as ModelReply
    from hermes.kernel.messages import ModelRequest as ModelRequest
    from hermes.kernel.messages import Refusal as Refusal
    from hermes.kernel.messages import Replay as Replay
    from hermes.kernel.messages import StopReason as StopReason
    from hermes.kernel.messages import Text as Text
    from hermes.kernel.messages import Thinking as Thinking
    from hermes.kernel.messages import ToolCall as ToolCall
    from hermes.kernel.messages import ToolResult as ToolResult
    from hermes.kernel.messages import Usage as Usage
    from hermes.kernel.providers import Delta as Delta
    from hermes.kernel.providers import Endpoint as Endpoint
    from hermes.kernel.providers import ModelRow as ModelRow
    from hermes.kernel.providers import Parameters as Parameters
    from hermes.kernel.providers import Profile as Profile
    from hermes.kernel.providers import Provider as Provider
    from hermes.kernel.providers import Stream as Stream
    from hermes.kernel.providers import Target as Target
    from hermes.kernel.providers import Timeouts as Timeouts
    from hermes.kernel.providers import ToolSchema as ToolSchema
    from hermes.kernel.providers import WireFault as WireFault
    from hermes.kernel.providers import WireFormat as WireFormat
    from hermes.kernel.roles import BatchEngine as BatchEngine
    from hermes.kernel.roles import Cancelled as Cancelled
    from hermes.kernel.roles import ChildResult as ChildResult
    from hermes.kernel.roles import ChildTask as ChildTask
    from hermes.kernel.roles import CompressionInfo as CompressionInfo
    from hermes.kernel.roles import ContextEngine as ContextEngine
    from hermes.kernel.roles import DelegateInfo as DelegateInfo
    from hermes.kernel.roles import Finding as Finding
    from hermes.kernel.roles import MemoryBackend as MemoryBackend
    from hermes.kernel.roles import MemoryOperation as MemoryOperation
    from hermes.kernel.roles import MemoryOutcome as MemoryOutcome
    from hermes.kernel.roles import ModelCallInfo as ModelCallInfo
    from hermes.kernel.roles import Platform as Platform
    from hermes.kernel.roles import PromptContext as PromptContext
    from hermes.kernel.roles import PromptSection as PromptSection
    from hermes.kernel.roles import Resources as Resources
    from hermes.kernel.roles import Tool as Tool
    from hermes.kernel.roles import ToolCallInfo as ToolCallInfo
    from hermes.kernel.roles import ToolContext as ToolContext
    from hermes.kernel.roles import ToolReturn as ToolReturn
    from hermes.kernel.roles import TurnInfo as TurnInfo
    from hermes.kernel.sessions import SessionInfo as SessionInfo
    from hermes.kernel.sessions import SessionLog as SessionLog
    from hermes.kernel.sessions import SessionStore as SessionStore
    from hermes.kernel.sessions import StoreFactory as StoreFactory
    from hermes.kernel.toolspec import tool as tool


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if (home := _HOME.get(name)) is not None:
        value = getattr(import_module(home), name)
    elif (home := _MODULES.get(name)) is not None:
        value = import_module(home)
    else:
        raise AttributeError(f"module 'hermes' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
