"""The toolset `terminal`: one tool that runs a shell command and waits for it.

Settings (`plugins.settings.terminal`): `shell` is the shell to run, bash when left out; `timeout_s` what a command gets
that names none; `keep_environment` a list of variables that commands see although they look like secrets.
"""

from __future__ import annotations

from collections.abc import Sequence

from hermes import Tool, hookimpl


@hookimpl
def register_tools() -> Sequence[Tool]:
    from hermes.plugins.tools.terminal.tool import terminal

    return [terminal]
