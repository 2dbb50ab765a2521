"""Load plugins and call their hooks: the ways of calling, and what a failure means in each.

The calls are ours, not pluggy's: a pluggy wrapper can neither skip a call nor change its arguments, its exceptions name
no plugin, and one exception ends the chain.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hermes.kernel.config.settings import PluginSettings
from hermes.kernel.contract import EVERY_KIND
from hermes.kernel.discovery import Catalogue, EntryPoint
from hermes.kernel.errors import PluginError, StopRun
from hermes.kernel.events import Notice, TextDelta, ThinkingDelta
from hermes.kernel.hookcalls import ON_PURPOSE, Handle, HookFailure, Implementation, MissedDeadline, cause_of
from hermes.kernel.items import WrongItem, check_answer, checked_items
from hermes.kernel.loading import group_of
from hermes.kernel.observers import Observer
from hermes.kernel.onion import Onion
from hermes.kernel.registry import Registry

DRAIN_S = 1.0
"""How long `close` waits for all observers together."""

FAILURES_TO_BENCH = 2


class Plugins:
    """The plugins of one run. Every method may be called from any thread.

    `report` gets one Notice for each line that a person should see. `on_stop` is called when an observer raises StopRun
    on its own thread; without it the next gather, decide, choose or around raises it.
    """

    def __init__(
        self,
        settings: PluginSettings,
        catalogue: Catalogue,
        *,
        report: Callable[[Notice], None],
        strict: bool = False,
        on_stop: Callable[[StopRun], None] | None = None,
    ) -> None:
        self.catalogue = catalogue
        self._settings, self._report, self._strict, self._on_stop = settings, report, strict, on_stop
        self._registry = Registry(settings, catalogue, report, strict)
        self._implementations = self._registry.implementations
        self._observers: dict[Handle, Observer] = {}
        self._lock = threading.RLock()
        self._pending: BaseException | None = None

    # ---- Loading ----------------------------------------------------------------------------------------------------

    def load(self, group: str, names: Iterable[str]) -> tuple[str, ...]:
        """Import and register plugins of a group; the names of those that are loaded now, in the order asked for.

        `installed` among the names stands for every entry point of the group that is not hermes' own. What cannot be
        loaded is reported once and left out; `problem` has the cause. Raises PluginError for a plugin in
        `plugins.required`, and for every one when strict.
        """
        return self._registry.load(group, names)

    def problem(self, group: str, name: str) -> str | None:
        """Why this plugin could not be loaded, in one line; None when nothing is known against it."""
        return self._registry.problem(group, name)

    def loaded(self) -> tuple[EntryPoint, ...]:
        """The entry points of all plugins that are loaded, in the order in which their hooks are called."""
        return tuple(handle.entry_point for handle in self._registry.loaded())

    # ---- Collect ----------------------------------------------------------------------------------------------------

    def collect(self, hook: str, group: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Call a `register_*` hook of the plugins of a group (and of hermes.plugins); (plugin, item) for every item.

        A plugin that fails, or gives one item of the wrong type or name, is dropped as a whole, with a warning.
        """
        collected: list[tuple[str, Any]] = []
        for each in self._implementations.get(hook, ()):
            handle = each.handle
            if handle.entry_point.group not in (group, EVERY_KIND):
                continue
            try:
                items = self._items(each, arguments)
            except ON_PURPOSE:
                raise
            except BaseException as error:
                remedy = "mend it or list it in plugins.disabled"
                self._registry.drop(handle, f"{handle.entry_point}: {hook} {_verb(error)}; it is left out: {remedy}")
            else:
                collected.extend((handle.name, item) for item in items)
        return collected

    def _items(self, each: Implementation, arguments: Mapping[str, Any]) -> list[Any]:
        pruned, handle = each.prune(arguments), each.handle

        def call() -> list[Any]:  # in the guard as a whole: a generator runs the plugin's code while it is listed
            is_named = group_of(handle.entry_point.group).is_named
            return checked_items(each.hook, each.function(**pruned), handle.name, is_named=is_named)

        found: list[Any] = handle.threads.call(call, self._settings.hook_deadline_s)
        return found

    # ---- Gather, decide, choose -------------------------------------------------------------------------------------

    def gather(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Ask a `provide_*` hook of everybody; (plugin, answer) for every answer. A failed one is left out."""
        answers = self._answers(hook, arguments)
        return [(plugin, answer) for plugin, answer in answers if not isinstance(answer, HookFailure)]

    def decide(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Ask a `decide_*` hook of everybody; (plugin, answer), with a HookFailure for each that failed or is benched.

        `strictest_opinion` and `strictest_approval` of hookcalls put the answers together.
        """
        return self._answers(hook, arguments)

    def choose(self, hook: str, **arguments: Any) -> Any | None:
        """Ask a `choose_*` hook of one after the other; the first answer, or None. A failure passes to the next."""
        implementations = self._implementations.get(hook)
        if implementations is None:
            return None
        self._raise_pending()
        for each in implementations:
            answer = self._ask(each, arguments)
            if answer is not None and not isinstance(answer, HookFailure):
                return answer
        return None

    def _answers(self, hook: str, arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
        implementations = self._implementations.get(hook)
        if implementations is None:
            return []
        self._raise_pending()
        asked = ((each.handle.name, self._ask(each, arguments)) for each in implementations)
        return [(plugin, answer) for plugin, answer in asked if answer is not None]

    def _ask(self, each: Implementation, arguments: Mapping[str, Any]) -> Any:
        if each.handle.is_benched:
            return HookFailure(each.handle.name, f"plugin {each.handle.name} is benched after failing twice")
        try:
            answer = each.call(arguments, self._settings.hook_deadline_s)
            check_answer(each.hook, answer)
        except ON_PURPOSE:
            raise
        except BaseException as error:
            self._failed(each, error)
            return HookFailure(each.handle.name, f"plugin {each.handle.name}: {each.hook} {_verb(error)}")
        return answer

    # ---- Around -----------------------------------------------------------------------------------------------------

    def around(self, hook: str, subject: Any, core: Callable[[Any], Any]) -> Any:
        """Call `core(subject)` inside the `around_*` wrappers of the hook, the first outermost, in this thread.

        What `core` raises comes out as it is. A wrapper that fails raises PluginError with its name.
        """
        wrappers = self._implementations.get(hook)
        if wrappers is None:
            return core(subject)
        self._raise_pending()
        return Onion(wrappers, core, self._failed).call(subject)

    # ---- Observe ----------------------------------------------------------------------------------------------------

    def wants(self, hook: str) -> bool:
        """Does any plugin have this hook? Cheap: ask before building an argument."""
        return hook in self._implementations

    def observe(self, hook: str, **arguments: Any) -> None:
        """Queue a call of a `before_*`, `after_*` or `on_event` hook for everybody who has it; returns at once."""
        listeners = self._implementations.get(hook)
        if listeners is None:
            return
        if hook == "on_event":
            is_delta = isinstance(arguments["event"], (TextDelta, ThinkingDelta))
            arguments["delta"] = is_delta
            if is_delta:
                listeners = tuple(each for each in listeners if "delta" in each.argument_names)
        for each in listeners:
            self._observer(each.handle).put(each, arguments)

    def _observer(self, handle: Handle) -> Observer:
        if (observer := self._observers.get(handle)) is None:
            with self._lock:
                observer = self._observers.setdefault(
                    handle, Observer(handle.entry_point.label, self._settings.hook_deadline_s, self._observer_failed)
                )
        return observer

    def _observer_failed(self, each: Implementation, error: BaseException | None) -> None:
        if isinstance(error, StopRun) and self._on_stop is not None:
            self._on_stop(error)
        elif isinstance(error, ON_PURPOSE):
            self._pending = error
        else:
            deadline = f"did not return within {self._settings.hook_deadline_s:g} s"
            try:
                self._failed(each, error or MissedDeadline(deadline))
            except PluginError as fatal:  # strict: the run hears of it at its next question
                self._pending = fatal

    # ---- Failures ---------------------------------------------------------------------------------------------------

    def _failed(self, each: Implementation, error: BaseException) -> None:
        """Count a failure of a loaded plugin: logged, fatal when strict, the second benches the plugin."""
        import logging

        handle = each.handle
        text = f"{handle.entry_point}: {each.hook} {_verb(error)}"
        logging.getLogger("hermes.plugins").warning("%s", text, exc_info=error)
        if self._strict:
            raise PluginError(text, plugin=handle.name, distribution=handle.entry_point.distribution) from error
        with self._lock:
            handle.failures += 1
            if handle.is_benched or handle.failures < FAILURES_TO_BENCH:
                return
            handle.is_benched = True
            # a guard that is broken must not open the door: its decide hooks go on counting as *ask*
            self._registry.silence(handle, keep="decide_")
            if (observer := self._observers.get(handle)) is not None:
                observer.stop()
        self._report(Notice(kind="plugin", text=f"{text}; it failed twice and is left out for the rest of this run"))

    def _raise_pending(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            raise pending

    def close(self) -> None:
        """Drain the observers for at most a second in all, and let the threads go. Twice is as good as once."""
        until = time.monotonic() + DRAIN_S
        for handle, observer in list(self._observers.items()):
            if not observer.drain(until):
                text = f"{handle.entry_point}: still busy at the end; what waited for it is lost"
                self._report(Notice(kind="plugin", text=text))
            if observer.dropped:
                text = f"{handle.entry_point}: too slow: {observer.dropped} calls of its hooks were dropped"
                self._report(Notice(kind="plugin", text=text))
        self._observers.clear()
        for handle in self._registry.loaded():
            handle.threads.close()


def _verb(error: BaseException) -> str:
    says_itself = isinstance(error, (WrongItem, MissedDeadline, SystemExit))
    return cause_of(error) if says_itself else f"raised {cause_of(error)}"


def flag_from_environ(name: str, environ: Mapping[str, str]) -> bool:
    """Is this variable set to a word for yes? HERMES_STRICT_PLUGINS=0 is no; an unknown word is yes."""
    return environ.get(name, "").strip().casefold() not in ("", "0", "false", "no", "off")
