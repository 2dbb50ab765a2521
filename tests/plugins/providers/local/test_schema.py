"""Through the real wire format and the real server: an answer is held to a JSON Schema, with tools offered or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from hermes.kernel.messages import Message, Text
from hermes.kernel.providers import Parameters, Target, Timeouts, ToolSchema
from hermes.plugins.providers.local import LocalProvider
from hermes.plugins.wire.chat_completions import ChatCompletions

SMALL = "smollm2-135m-instruct"
READ = ToolSchema("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
SCHEMA = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["yes", "no"]},
        "reasons": {"type": "array", "items": {"$ref": "#/$defs/reason"}},
    },
    "required": ["verdict"],
    "additionalProperties": False,
    "$defs": {"reason": {"enum": ["size", "colour"]}},
}


@pytest.fixture
def target(home_with_model: Path) -> Iterator[Target]:
    provider = LocalProvider()
    endpoint = provider.connect(SMALL, lambda what, share: None, lambda: False)
    yield Target(f"local:{SMALL}", provider.profile, SMALL, endpoint.base_url, "chat_completions", endpoint.api_key)
    provider.close()


def test_a_model_that_knows_nothing_of_a_schema_writes_what_fits_it(target: Target) -> None:
    wire = ChatCompletions()
    message = wire.encode(Message("user", (Text("Is the sky blue?"),)), target)
    for tools in ((), (READ,)):
        parameters = Parameters(temperature=0.0, output_cap=120, may_call=False, schema=SCHEMA)
        body = wire.envelope(wire.prefix("You judge.", tools, target), [message], parameters, target)
        stream = wire.open(body, parameters, target, Timeouts())
        for _ in stream:
            pass
        jsonschema.validate(json.loads(stream.reply().text), SCHEMA)
    wire.close()
