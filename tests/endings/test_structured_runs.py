"""Whole runs of `hermes run --schema` and `--image`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hermes.testing import call, fault, text

pytestmark = pytest.mark.skipif(os.name == "nt", reason="starts its runs by fork")

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ADA = {"name": "Ada ◕", "age": 36}


@pytest.fixture
def schema(tmp_path: Path) -> str:
    return written(tmp_path, SCHEMA)


def written(folder: Path, schema: Any) -> str:
    file = folder / "schema.json"
    file.write_text(json.dumps(schema), encoding="utf-8")
    return str(file)


def test_stdout_is_exactly_the_json_in_one_line(hermes, schema: str) -> None:
    hermes.server.add(text(f"```json\n{json.dumps(ADA, indent=2)}\n```"))
    done = hermes.run("--schema", schema, "who?")
    assert done.code == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout) == ADA


def test_the_json_result_has_the_text_and_the_value(hermes, schema: str) -> None:
    hermes.server.add(text(json.dumps(ADA)))
    result = hermes.run("-o", "json", "--schema", schema, "who?").json
    assert (result["answer"], result["structured"]) == (json.dumps(ADA), ADA)
    hermes.server.add(text("Ada."))
    assert hermes.run("-o", "json", "who?").json["structured"] is None


def test_it_works_with_tools(hermes, schema: str) -> None:
    (hermes.work / "a.txt").write_text("Ada is 36\n", encoding="utf-8")
    hermes.server.add(call("read_file", path="a.txt"), text(json.dumps(ADA)))
    done = hermes.run("--schema", schema, "who is in a.txt?")
    assert json.loads(done.stdout) == ADA, done.stderr


def test_a_misfit_is_repaired_once(hermes, schema: str) -> None:
    hermes.server.add(text('{"name": "Ada"}'), text(json.dumps(ADA)))
    done = hermes.run("--schema", schema, "who?")
    assert (done.code, json.loads(done.stdout)) == (0, ADA), done.stderr
    assert "'age' is a required property" in str(hermes.server.requests[1].last["content"])


def test_an_answer_that_never_fits_is_delivered_with_its_own_ending(hermes, schema: str) -> None:
    hermes.server.add(text("Ada."), text("Still Ada."))
    done = hermes.run("--schema", schema, "who?")
    assert (done.code, done.stdout) == (8, "Still Ada.\n")
    assert done.last_line.startswith("hermes: incomplete/schema_unmet: the answer does not fit the schema: ")
    assert hermes.rows()[0]["end_reason"] == "schema_unmet"


@pytest.mark.parametrize("value", [[1, 2], None, "text", 5])
def test_a_root_that_is_no_object_is_wrapped_and_unwrapped(hermes, tmp_path: Path, value: Any) -> None:
    hermes.server.add(text(json.dumps({"answer": value})))
    done = hermes.run("--schema", written(tmp_path, {"type": ["array", "null", "string", "integer"]}), "what?")
    assert (done.code, done.stdout) == (0, json.dumps(value) + "\n"), done.stderr


def test_a_schema_that_is_none_is_a_usage_error_before_anything_begins(hermes, tmp_path: Path) -> None:
    done = hermes.run("-o", "json", "--schema", written(tmp_path, {"type": "objct"}), "who?")
    assert (done.code, done.json["reason"]) == (2, "usage")
    assert "schema.json" in done.last_line
    assert hermes.rows() == []


def test_a_turn_that_was_killed_keeps_its_schema_and_takes_no_other(hermes, schema: str) -> None:
    hermes.server.add(call("read_file", path="absent"), text("never seen").but(hold_after=1))

    def kill(pid: int) -> None:
        hermes.server.wait_for_requests(2)
        os.kill(pid, 9)

    hermes.run("--schema", schema, "who?", meanwhile=kill)
    [row] = hermes.rows()
    refused = hermes.run("--resume", row["id"], "--schema", schema)
    assert refused.code == 2
    assert "--schema" in refused.last_line
    hermes.server.add(text("Ada."), text(json.dumps(ADA)))
    done = hermes.run("-o", "json", "--resume", row["id"])
    assert (done.code, done.json["structured"]) == (0, ADA), done.stderr


def test_a_server_that_refuses_the_schema_is_asked_in_words(hermes, schema: str) -> None:
    quirks = {"schema_beside_tools": True}
    provider = {"scripted": {"base_url": hermes.server.base_url, "api_key": "k", "quirks": quirks}}
    hermes.settings(providers=provider)
    hermes.server.add(fault(400, "response_format is not supported"), text(json.dumps(ADA)))
    done = hermes.run("--schema", schema, "who?")
    assert (done.code, json.loads(done.stdout)) == (0, ADA), done.stderr
    assert [("response_format" in r.body) for r in hermes.server.requests] == [True, False]
    assert json.dumps(SCHEMA) in str(hermes.server.requests[1].last["content"])


# ---- Images ---------------------------------------------------------------------------------------------------------


def picture(folder: Path) -> str:
    file = folder / "picture"
    file.write_bytes(b"\x89PNG\r\n\x1a\n....")
    return str(file)


def test_an_image_is_sent_with_or_without_words(hermes, tmp_path: Path) -> None:
    hermes.server.add(text("A dot."), text("A dot."))
    assert hermes.run("--image", picture(tmp_path), "--image", picture(tmp_path), "what is this?").code == 0
    assert [p["type"] for p in hermes.server.requests[0].last["content"]] == ["text", "image_url", "image_url"]
    assert hermes.run("--image", picture(tmp_path)).stdout == "A dot.\n"
    assert [p["type"] for p in hermes.server.requests[1].last["content"]] == ["image_url"]


def test_a_file_that_is_no_image_is_a_usage_error(hermes, schema: str) -> None:
    done = hermes.run("--image", schema, "what is this?")
    assert done.code == 2
    assert "no PNG, JPEG, GIF or WebP" in done.last_line
    assert hermes.server.requests == []


def test_a_model_that_cannot_see_gets_a_description_whose_cost_is_shown(hermes, tmp_path: Path) -> None:
    models = {"any": {"images": False}, "small": {"images": True}}
    provider = {"scripted": {"base_url": hermes.server.base_url, "api_key": "k", "models": models}}
    hermes.settings(providers=provider, auxiliary={"model": "scripted:small"})
    hermes.server.add(text("A red dot."), text("It is a dot."))
    result = hermes.run("-o", "json", "--image", picture(tmp_path), "what is this?").json
    assert result["answer"] == "It is a dot."
    assert "A red dot." in str(hermes.server.requests[1].last["content"])
    rows = [(row["model"], row["purpose"], row["calls"]) for row in result["usage_by"]]
    assert rows == [("scripted:small", "auxiliary", 1), ("scripted:any", "turn", 1)]
    assert sum(row["total_tokens"] for row in result["usage_by"]) == result["usage"]["total_tokens"]


# ---- Titles ---------------------------------------------------------------------------------------------------------


def test_a_session_is_given_a_title_by_hand_or_by_the_auxiliary_model(hermes) -> None:
    hermes.server.add(text("Forty-two."), text('"The answer to\neverything."'))
    hermes.run("what is the answer?")
    [row] = hermes.rows()
    assert hermes("sessions", "title", row["id"], "my session").stdout == "my session\n"
    hermes.settings(auxiliary={"model": "scripted:small"})
    done = hermes("sessions", "title", row["id"], "--generate")
    assert (done.code, done.stdout) == (0, "The answer to everything\n"), done.stderr
    assert hermes.rows()[0]["title"] == "The answer to everything"
    asked = hermes.server.requests[1]
    assert asked.body["model"] == "small"
    assert "what is the answer?" in str(asked.last["content"])


def test_a_title_that_cannot_be_made_leaves_the_old_one(hermes) -> None:
    hermes.server.add(text("Forty-two."), fault(500, "it broke"))
    hermes.run("--session", "mine", "what is the answer?")
    done = hermes("sessions", "title", "mine", "--generate")
    assert done.code == 5
    assert "it broke" in done.stderr
    assert hermes.rows()[0]["title"] == "mine"
    assert hermes("sessions", "title", "mine").code == 2
    assert hermes("sessions", "title", "mine", " ").code == 2
