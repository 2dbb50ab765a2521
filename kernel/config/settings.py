"""The settings as frozen dataclasses: one class a section of hermes.yaml, field names as there.

The defaults in `hermes.yaml` are the truth for values; a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from hermes.kernel.config.record import dataclass


@dataclass(frozen=True, slots=True)
class ModelOptions:
    temperature: float | None = None
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    context_window: int | None = None


@dataclass(frozen=True, slots=True)
class FallbackModel:
    """A model of the chain with options of its own; those that are None are `model_options`', but for the window."""

    model: str
    reasoning_effort: str | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class AuxiliarySettings:
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """An endpoint from hermes.yaml; unset fields come from the catalogue's row of that name."""

    base_url: str | None = None
    api_mode: str | None = None
    api_key: str | tuple[str, ...] | None = field(default=None, repr=False)
    default_model: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    quirks: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    strategy: str = "fill_first"
    cooldown_s: float = 3600


@dataclass(frozen=True, slots=True)
class RequestSettings:
    connect_timeout_s: float = 5
    first_token_timeout_s: float | None = None
    stall_timeout_s: float | None = None
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class ToolSettings:
    toolsets: tuple[str, ...] = ("files", "terminal", "web", "code", "installed")
    disable: tuple[str, ...] = ()
    replace: Mapping[str, str] = field(default_factory=dict)
    workers: int = 8
    deadline_s: float = 300
    result_max_chars: int = 50000
    search: str = "auto"


@dataclass(frozen=True, slots=True)
class DelegateSettings:
    iterations: int = 50
    max_children: int = 3
    max_depth: int = 1


@dataclass(frozen=True, slots=True)
class MemorySettings:
    backend: str = "files"
    memory_max_chars: int = 2200
    user_max_chars: int = 1375
    ask_before_write: bool = False


@dataclass(frozen=True, slots=True)
class PromptSettings:
    identity: str | None = None
    append: str | None = None
    sections: tuple[str, ...] = (
        "identity", "caller", "memory_guidance", "search_guidance", "tool_discipline",
        "context_files", "memory", "environment", "installed", "append",
    )  # fmt: skip
    context_files: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md", ".cursorrules")
    section_max_chars: int = 20000


@dataclass(frozen=True, slots=True)
class ContextSettings:
    engine: str = "default"
    compress_at: float = 0.75
    warn_at: tuple[float, ...] = (0.85, 0.95)
    keep_first_messages: int = 3
    keep_last_share: float = 0.20
    prompt_cache: str = "auto"
    prompt_cache_ttl: str = "5m"


@dataclass(frozen=True, slots=True)
class LimitSettings:
    iterations: int | None = 90
    max_seconds: float | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    warn_model_at: tuple[float, ...] = (0.7, 0.9)
    stop_after_failing_calls: int = 5


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """The first rule that fits decides. `tool` and `match` are shell patterns; None fits everything."""

    decide: Literal["ask", "allow", "deny"]
    tool: str | None = None
    match: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalSettings:
    mode: Literal["ask", "allow", "deny"] = "ask"
    rules: tuple[ApprovalRule, ...] = ()
    protect_paths: tuple[str, ...] = ("~/.ssh", "~/.aws", "~/.gnupg", "**/.env")
    sandbox: str = "none"
    network: bool = True


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    enabled: bool = True
    keep: int = 20


@dataclass(frozen=True, slots=True)
class SessionSettings:
    store: str = "sqlite"
    path: str | None = None
    sync: str = "full"
    outcomes: bool = False
    busy: Literal["steer", "queue", "interrupt"] = "steer"
    stop_when_failing: bool = False
    keep_days: int | None = None


@dataclass(frozen=True, slots=True)
class PluginSettings:
    enabled: tuple[str, ...] = ("installed",)
    disabled: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    isolation: str = "none"
    hook_deadline_s: float = 5
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DisplaySettings:
    color: str = "auto"
    show_reasoning: bool = False
    show_tools: str = "line"
    stream: bool = True


@dataclass(frozen=True, slots=True)
class LogSettings:
    level: str = "warning"
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    version: int = 1
    model: str = "auto"
    model_options: ModelOptions = field(default_factory=ModelOptions)
    fallback: tuple[str | FallbackModel, ...] = ()
    auxiliary: AuxiliarySettings = field(default_factory=AuxiliarySettings)
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    pool: PoolSettings = field(default_factory=PoolSettings)
    request: RequestSettings = field(default_factory=RequestSettings)
    tools: ToolSettings = field(default_factory=ToolSettings)
    delegate: DelegateSettings = field(default_factory=DelegateSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    prompt: PromptSettings = field(default_factory=PromptSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    approval: ApprovalSettings = field(default_factory=ApprovalSettings)
    checkpoints: CheckpointSettings = field(default_factory=CheckpointSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    plugins: PluginSettings = field(default_factory=PluginSettings)
    display: DisplaySettings = field(default_factory=DisplaySettings)
    log: LogSettings = field(default_factory=LogSettings)
