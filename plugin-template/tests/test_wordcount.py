"""The fixtures come with hermes (`hermes.testing`): a tool runner, a scripted model, an empty HERMES_HOME."""

import json
import subprocess
import sys

from hermes.testing import call, scripted_settings, text
from hermes_plugin_wordcount import count_words


def test_it_counts_words(run_tool):
    assert run_tool(count_words, text="one two  three").text == "3 words"


def test_a_call_without_its_argument_tells_the_model_what_is_missing(run_tool):
    outcome = run_tool(count_words)
    assert not outcome.ok
    assert "text" in outcome.text


def test_hermes_finds_the_plugin():
    listed = subprocess.run([sys.executable, "-m", "hermes", "plugins", "list", "--json"], capture_output=True, check=True)
    found = {(row["group"], row["name"]): row for row in json.loads(listed.stdout)}
    assert found["hermes.tools", "wordcount"]["problem"] == ""


def test_a_run_calls_the_tool(scripted, hermes_home, tmp_path):
    scripted.add(call("count_words", text="one two"), text("There are two."))
    settings = scripted_settings(scripted, tools={"toolsets": ["wordcount"]})
    (hermes_home / "hermes.yaml").write_text(json.dumps(settings), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "hermes", "run", "how many words?"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "There are two.\n"
    assert "2 words" in json.dumps(scripted.requests[1].messages)
