"""The kinds of plugins and of hooks, as one table: docs/hooks.md shows it, and a test holds the two together."""

from __future__ import annotations

from dataclasses import dataclass

ALL_HOOKS = ("all",)


@dataclass(frozen=True, slots=True)
class Group:
    """An entry-point group. `noun` is what a name in it stands for; `hooks` is ALL_HOOKS where every hook is allowed.

    `is_data`: the value is a file, and nothing is imported. `is_named`: what it registers bears the entry point's name.
    """

    name: str
    kind: str
    noun: str
    hooks: tuple[str, ...]
    loaded_when: str
    is_data: bool = False
    is_named: bool = True

    def allows(self, hook: str) -> bool:
        return self.hooks == ALL_HOOKS or hook in self.hooks


GROUPS: dict[str, Group] = {
    group.name: group
    for group in (
        Group(
            "hermes.wire", "wire format", "an `api_mode`",
            ("register_wire_formats",), "the chosen provider speaks it",
        ),
        Group(
            "hermes.profiles", "provider catalogue (data, JSON file)", "a catalogue",
            (), "a model is chosen, `providers list`", is_data=True,
        ),
        Group(
            "hermes.providers", "provider with code of its own", "a provider",
            ("register_providers",), "`model`, `fallback` or `auxiliary` names it",
        ),
        Group(
            "hermes.tools", "toolset", "a toolset",
            ("register_tools",), "`tools.toolsets` names it, or says `installed` (it does by default)",
        ),
        Group(
            "hermes.memory", "memory backend", "a backend",
            ("register_memory_backends",), "`memory.backend` names it",
        ),
        Group(
            "hermes.prompt", "prompt section", "a section",
            ("register_prompt_sections",), "`prompt.sections` names it, or says `installed` (it does by default)",
        ),
        Group(
            "hermes.context", "context engine", "an engine",
            ("register_context_engines",), "`context.engine` names it",
        ),
        Group(
            "hermes.stores", "session store", "a store",
            ("register_session_stores",), "`sessions.store` names it",
        ),
        Group(
            "hermes.platforms", "platform", "a front end",
            ("register_platforms",), "its command runs",
        ),
        Group(
            "hermes.engines", "batch engine", "an engine",
            ("register_batch_engines",), "its command runs",
        ),
        Group(
            "hermes.commands", "subcommand", "a command",
            (), "it is called; help and completion show the name only",
        ),
        Group(
            "hermes.plugins", "observer, or several kinds at once", "the plugin",
            ALL_HOOKS, "`plugins.enabled` names it, or says `installed` (it does by default)", is_named=False,
        ),
        Group(
            "hermes.settings", "settings schema (data)", "the plugin it describes",
            (), "settings are checked", is_data=True,
        ),
    )
}  # fmt: skip

EVERY_KIND = "hermes.plugins"
INSTALLED = "installed"
"""The word in a list of names that stands for every plugin of the group that is not hermes' own."""

PREFIXES: dict[str, str] = {
    "register_": "collect",
    "provide_": "gather",
    "before_": "observe",
    "after_": "observe",
    "on_": "observe",
    "decide_": "decide",
    "choose_": "choose",
    "around_": "around",
}


def kind_of(hook: str) -> str:
    """The kind of a hook by the first word of its name; "" when it is none of ours."""
    return next((kind for prefix, kind in PREFIXES.items() if hook.startswith(prefix)), "")
