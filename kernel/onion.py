"""Wrappers around a call, composed of ordinary functions: each may change what goes in, what comes out, or not call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hermes.kernel.errors import PluginError
from hermes.kernel.hookcalls import ON_PURPOSE, Implementation, cause_of
from hermes.kernel.quiet import aloud, quiet


class Onion:
    """One call through all wrappers, the first outermost, all in the caller's thread."""

    def __init__(
        self,
        wrappers: Sequence[Implementation],
        core: Callable[[Any], Any],
        failed: Callable[[Implementation, BaseException], None],
    ) -> None:
        self._wrappers, self._core, self._failed = wrappers, core, failed
        self._from_inside: list[BaseException] = []

    def call(self, subject: Any) -> Any:
        """The outermost wrapper's result. What the core raised comes out as it is; else PluginError names a wrapper."""
        return self._layer(0, subject)

    def _layer(self, depth: int, subject: Any) -> Any:
        if depth == len(self._wrappers):
            return self._core(subject)
        wrapper = self._wrappers[depth]
        kind = type(subject)
        results: list[Any] = []

        def proceed(changed: Any) -> Any:
            if not isinstance(changed, kind):
                raise TypeError(f"proceed wants a {kind.__name__}, not a {type(changed).__name__}")
            try:
                with aloud():
                    result = self._layer(depth + 1, changed)
            except BaseException as error:
                self._from_inside.append(error)
                raise
            results.append(result)
            return result

        arguments = {name: proceed if name == "proceed" else subject for name in wrapper.argument_names}
        try:
            with quiet():
                result = wrapper.function(**arguments)
            if result is None and None not in results:
                raise TypeError("returned None: return what proceed gave, or a result of its own")
        except ON_PURPOSE:
            raise
        except BaseException as error:
            if any(error is passing for passing in self._from_inside):
                raise
            entry_point = wrapper.handle.entry_point
            self._failed(wrapper, error)
            raise PluginError(
                f"{entry_point}: {wrapper.hook} raised {cause_of(error)}",
                plugin=entry_point.name,
                distribution=entry_point.distribution,
            ) from error
        return result
