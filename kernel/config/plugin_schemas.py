"""The schemas of plugins' own settings: JSON files of the group `hermes.settings`, read without any import."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermes.kernel.config.outside import types_of
from hermes.kernel.config.schema import SCHEMA, malformed
from hermes.kernel.errors import HermesError

if TYPE_CHECKING:
    from hermes.kernel.discovery import Catalogue

GROUP = "hermes.settings"


def plugin_schemas(catalogue: Catalogue | None, warnings: list[str]) -> dict[str, dict[str, Any]]:
    """The schema of each plugin by its name. One that cannot be read is left out, with a warning that names it."""
    from hermes.kernel import discovery

    catalogue = catalogue if catalogue is not None else discovery.scan()
    schemas: dict[str, dict[str, Any]] = {}
    for entry in catalogue.group(GROUP):
        if claim := catalogue.claim_on(entry):
            warnings.append(str(claim))
            continue
        try:
            schema = json.loads(discovery.read_data(entry).decode("utf-8-sig"))
            if why := malformed(schema):
                raise ValueError(why)
            schemas[entry.name] = schema
        except (OSError, ValueError, LookupError, ImportError, HermesError, RecursionError) as error:
            warnings.append(
                f"the settings schema of plugin {entry.name} ({entry.distribution}) cannot be read: {error}; "
                f"plugins.settings.{entry.name} is not checked"
            )
    return schemas


def merged_schema(schemas: Mapping[str, Any] | None, warnings: list[str]) -> dict[str, Any]:
    """The whole schema, each plugin's at its place; None reads them from what is installed."""
    schemas = plugin_schemas(None, warnings) if schemas is None else schemas
    merged = copy.deepcopy(SCHEMA)
    merged["properties"]["plugins"]["properties"]["settings"]["properties"] = dict(schemas)
    return merged


def editor_schema(warnings: list[str]) -> dict[str, Any]:
    """The merged schema for editors: a `${…}` is fine wherever another type is wanted in the end."""
    schema: dict[str, Any] = _with_references(merged_schema(None, warnings))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "hermes.yaml", **schema}


_REFERENCE = {"type": "string", "pattern": r"\$\{"}
_SCALARS = frozenset(("integer", "number", "boolean"))


def _with_references(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    out = dict(schema)
    for name in ("properties", "patternProperties"):
        if name in out:
            out[name] = {key: _with_references(child) for key, child in out[name].items()}
    for name in ("items", "additionalProperties"):
        if name in out:
            out[name] = _with_references(out[name])
    if _SCALARS & set(types_of(schema)) or "enum" in schema:
        described = {"description": out.pop("description")} if "description" in out else {}
        return {**described, "anyOf": [out, dict(_REFERENCE)]}
    return out
