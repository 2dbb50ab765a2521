"""Keep what a person answered with "always" as a rule in their own settings."""

from __future__ import annotations

import dataclasses

from hermes.kernel.config import edits, sources
from hermes.kernel.config.settings import ApprovalRule
from hermes.kernel.errors import SettingsError


def add_rule(rule: ApprovalRule) -> None:
    """Add the rule behind those that are there, which go on to win over it.

    Raises SettingsError when the user's file cannot be edited as it is written, OSError when it cannot be written.
    """
    path = sources.user_file()
    if path is None:
        raise SettingsError("the rule cannot be kept: no home directory is known for this user; set HERMES_HOME")
    given = {name: value for name, value in dataclasses.asdict(rule).items() if value is not None}
    # A command may hold ${…} of the shell, which is not to be filled in when the settings are read.
    edits.append(path, "approval.rules", {name: str(value).replace("${", "$${") for name, value in given.items()})
