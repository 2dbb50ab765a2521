"""Which plugins are loaded, and whose functions a hook calls, in which order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pluggy

from hermes import hookspecs
from hermes.kernel.config.settings import PluginSettings
from hermes.kernel.contract import INSTALLED
from hermes.kernel.discovery import Catalogue, EntryPoint
from hermes.kernel.errors import PluginError
from hermes.kernel.events import Notice
from hermes.kernel.hookcalls import ON_PURPOSE, Handle, Implementation, Threads, cause_of
from hermes.kernel.loading import Refused, check_hooks, find, group_of, load_object

IMPORT_DEADLINE_S = 20.0
"""How long a plugin's import may take: ten times the slowest SDK import that was measured here."""


class Registry:
    """Loads plugins by what settings name. `implementations`: for each hook that anybody has, a tuple in call order.

    pluggy keeps the plugins and checks their specs; its own order (the last registered first) is not used.
    """

    def __init__(
        self, settings: PluginSettings, catalogue: Catalogue, report: Callable[[Notice], None], strict: bool
    ) -> None:
        self.implementations: dict[str, tuple[Implementation, ...]] = {}
        self._settings, self._catalogue, self._report, self._strict = settings, catalogue, report, strict
        self._manager = pluggy.PluginManager("hermes")
        self._manager.add_hookspecs(hookspecs)
        self._handles: dict[tuple[str, str], Handle] = {}
        self._problems: dict[tuple[str, str], str] = {}
        self._lock = threading.RLock()
        self._check_required()

    def load(self, group: str, names: Iterable[str]) -> tuple[str, ...]:
        """As `Plugins.load`."""
        with self._lock:
            return tuple(name for name in self._expanded(group, names) if self._load(group, name))

    def problem(self, group: str, name: str) -> str | None:
        return self._problems.get((group, name))

    def loaded(self) -> tuple[Handle, ...]:
        """All that are loaded, in the order in which their hooks are called."""
        return tuple(sorted(self._handles.values(), key=self._place))

    def _expanded(self, group: str, names: Iterable[str]) -> list[str]:
        given = list(names)
        expanded: dict[str, None] = {}
        for name in given:
            if name != INSTALLED:
                expanded[name] = None
                continue
            for entry_point in self._catalogue.group(group):
                is_off = entry_point.is_own or self._is_listed(entry_point.kind, entry_point.name, "disabled")
                if not is_off and entry_point.name not in given:
                    expanded[entry_point.name] = None
        return list(expanded)

    def _load(self, group: str, name: str) -> bool:
        if (group, name) in self._handles:
            return True
        if (group, name) in self._problems:
            return False
        kind = group.partition(".")[2]
        entry_point: EntryPoint | None = None
        try:
            if group_of(group).is_data or not group_of(group).hooks:
                raise Refused(f"{group} holds no hooks: it is not loaded this way")
            if self._is_listed(kind, name, "disabled"):
                raise Refused(f"{name} is in plugins.disabled; take it out there, or out of the setting that names it")
            entry_point = find(self._catalogue, group, name)
            self._register(entry_point, load_object(entry_point, IMPORT_DEADLINE_S))
        except Refused as refusal:
            who = f"{entry_point}: " if entry_point is not None else f"plugins: {group}: "
            self._refuse(group, name, entry_point, who + str(refusal))
            return False
        return True

    def _register(self, entry_point: EntryPoint, plugin: object) -> None:
        try:
            check_hooks(plugin, entry_point, self._manager)
            self._manager.register(plugin, name=entry_point.label)
            callers = self._manager.get_hookcallers(plugin) or []
        except (Refused, *ON_PURPOSE):
            raise
        except BaseException as error:  # its attributes may raise, and pluggy has refusals of its own
            raise Refused(f"it cannot be registered: {cause_of(error)}") from error
        handle = Handle(entry_point, plugin, Threads(entry_point.label))
        self._handles[entry_point.group, entry_point.name] = handle
        for caller in callers:
            for found in caller.get_hookimpls():
                if found.plugin is plugin:
                    names = (*found.argnames, *found.kwargnames)
                    self._add(Implementation(caller.name, handle, found.function, names))

    def _add(self, implementation: Implementation) -> None:
        others = self.implementations.get(implementation.hook, ())
        ordered = sorted((*others, implementation), key=lambda each: self._place(each.handle))
        self.implementations[implementation.hook] = tuple(ordered)

    def _place(self, handle: Handle) -> tuple[int, str, str]:
        order, words = self._settings.order, (handle.name, handle.entry_point.label)
        place = next((place for place, word in enumerate(order) if word in words), len(order))
        return place, handle.name, handle.entry_point.group

    def _check_required(self) -> None:
        for name in self._settings.required:
            word = name.rpartition(":")[2]
            found = [e for e in self._catalogue.entry_points if name in (e.name, e.label)]
            if not found:
                raise PluginError(f"plugins.required names {name}, which is not installed; install it", plugin=word)
            if self._is_listed(found[0].kind, word, "disabled"):
                raise PluginError(f"plugins.required and plugins.disabled both name {name}: take one out", plugin=word)

    def _is_listed(self, kind: str, name: str, setting: str) -> bool:
        """Is the plugin in `disabled` or `required`? Listed as its name or as kind:name, whatever the case."""
        listed = {word.casefold() for word in getattr(self._settings, setting)}
        return name.casefold() in listed or f"{kind}:{name}".casefold() in listed

    def drop(self, handle: Handle, text: str) -> None:
        """Take out a plugin that failed while it registered something; refused from now on, for the cause `text`."""
        entry_point = handle.entry_point
        with self._lock:
            self._handles.pop((entry_point.group, entry_point.name), None)
        self.silence(handle)
        self._refuse(entry_point.group, entry_point.name, entry_point, text)

    def silence(self, handle: Handle, keep: str | None = None) -> None:
        """Take a plugin's functions out of every hook, but those whose names begin with `keep`."""
        with self._lock:
            for hook, implementations in list(self.implementations.items()):
                if keep is not None and hook.startswith(keep):
                    continue
                rest = tuple(each for each in implementations if each.handle is not handle)
                if rest:
                    self.implementations[hook] = rest
                else:
                    del self.implementations[hook]

    def _refuse(self, group: str, name: str, entry_point: EntryPoint | None, text: str) -> None:
        self._problems[group, name] = text
        if self._strict or self._is_listed(group.partition(".")[2], name, "required"):
            raise PluginError(text, plugin=name, distribution=entry_point.distribution if entry_point else "")
        self._report(Notice(kind="plugin", text=text))
