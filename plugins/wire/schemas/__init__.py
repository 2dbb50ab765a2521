"""JSON Schemas as each kind of server accepts them: of tools' arguments and of answers, always on a copy.

The steps: references (`references`), one object at the root (`objects`), then node by node what the dialect takes
(`nodes`), by the table in `dialects`. Meaning is kept; a constraint that cannot be sent is told in the description.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from hermes.kernel.messages import Json
from hermes.kernel.providers import Target, ToolSchema

from .dialects import dialect_of
from .errors import Unsendable
from .nodes import rewritten
from .objects import as_object
from .references import without_references
from .strict import is_strict_schema

__all__ = ["answer_schema", "is_strict_schema", "parameters_of"]

_LOG = logging.getLogger("hermes.wire")
_left_out: set[tuple[str, str]] = set()


def parameters_of(tool: ToolSchema, target: Target) -> Mapping[str, Json] | None:
    """The schema of a tool's arguments as the target takes it.

    None: it cannot be made acceptable, the tool is to be left out (said once in the log). Empty: the tool has no
    arguments and the target wants no schema for that.
    """
    try:
        return _accepted(tool.parameters, target)
    except Unsendable as problem:
        if (tool.name, target.name) not in _left_out:
            _left_out.add((tool.name, target.name))
            _LOG.warning(
                "%s is not offered the tool %s: its schema cannot be sent: %s", target.name, tool.name, problem
            )
        return None


def answer_schema(schema: Mapping[str, Json], target: Target) -> Mapping[str, Json] | None:
    """The schema of an answer as the target takes it; None when there is no such form."""
    try:
        return _accepted(schema, target) or None
    except Unsendable:
        return None


def _accepted(schema: Json, target: Target) -> dict[str, Json]:
    dialect = dialect_of(target)
    plain = as_object(without_references(schema, keeps_definitions=dialect.keeps_references))
    sent = rewritten(plain, dialect)
    if dialect.root_keywords is not None:
        sent = {key: value for key, value in sent.items() if key in dialect.root_keywords}
    return sent if sent.get("properties") or dialect.sends_no_properties else {}
