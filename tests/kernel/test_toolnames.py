"""Which tool a model means by a name that is not quite one."""

from __future__ import annotations

import pytest

from hermes.kernel.toolnames import meant_name, no_such_tool

OFFERED = frozenset(
    {"todo", "patch", "browser_click", "read_file", "web.search", "my_tool", "mcp_srv_find", "terminal"}
)
READ = frozenset({"read_file", "web.search", "mcp_srv_find"})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("todo", "todo"),
        (" todo ", "todo"),
        ("Todo", "todo"),
        ("TodoTool_tool", "todo"),
        ("Patch_tool", "patch"),
        ("patchTool", "patch"),
        ("BrowserClick_tool", "browser_click"),
        ("readFile", "read_file"),
        ("read-file", "read_file"),
        ("Read_file", "read_file"),
        ("Read File", "read_file"),
        ("readfile", "read_file"),
        ("functions.read_file", "read_file"),
        ("tool:terminal", "terminal"),
        ("web.search", "web.search"),
        ("my_tool", "my_tool"),
        ("my", "my_tool"),
        ("srv_find", "mcp_srv_find"),
        ("mcp_mcp_srv_find", "mcp_srv_find"),
        ('terminal" parameter="command" value="ls"', "terminal"),
        ("read_file<|channel|>", "read_file"),
        ("", ""),
        (" \n", ""),
        ('"', ""),
        ("tool", "tool"),
        ("shell", "shell"),
        ("tool:execute_terminal", "tool:execute_terminal"),
        ("ты", "ты"),
    ],
)
def test_B097_spec_14784_spec_33007_a_name_is_taken_as_the_model_meant_it(written: str, meant: str) -> None:
    assert meant_name(written, OFFERED, READ) == meant


def test_B097_a_form_that_two_tools_have_is_nobodys() -> None:
    assert meant_name("READ_FILE", {"ReadFile", "read_file_tool"}, ()) == "ReadFile"  # the nearer form wins
    assert meant_name("READ_FILE", {"ReadFile", "read-file"}, ()) == "READ_FILE"


def test_a_tool_that_is_written_in_capitals_is_found_by_small_letters() -> None:
    assert meant_name("bash", {"Bash", "Read"}, ()) == "Bash"


def test_spec_9_4_1_a_similar_name_is_taken_for_a_tool_that_only_reads() -> None:
    assert meant_name("reed_file", OFFERED, READ) == "read_file"
    assert meant_name("web_serch", OFFERED, READ) == "web.search"
    assert meant_name("terminl", OFFERED, READ) == "terminl", "what a command changes cannot be taken back"


def test_B098_a_shared_prefix_does_not_make_another_tool_run() -> None:
    offered = {"mcp_srv_entity_search", "mcp_srv_entity_merge"}
    assert meant_name("mcp_srv_entity_mergers", offered, offered) == "mcp_srv_entity_mergers"
    assert meant_name("mcp_srv_deleted_x", {"mcp_srv_delete_x", "read_file"}, {"read_file"}) == "mcp_srv_deleted_x"


def test_what_does_not_exist_is_told_with_the_nearest_names_first() -> None:
    assert no_such_tool("terminl", OFFERED).startswith("there is no tool 'terminl'. Did you mean terminal? The tools ")
    assert no_such_tool("fly", ()) == "there is no tool 'fly'. The tools are: none."


def test_the_list_of_what_exists_is_bounded_and_so_is_the_name() -> None:
    told = no_such_tool("x" * 10_000, [f"tool_number_{n}" for n in range(500)])
    assert len(told) < 1500
    assert told.endswith("and 460 more.")


def test_a_name_without_end_costs_nothing() -> None:
    offered = frozenset(f"mcp_server_{n}_get_the_thing" for n in range(300))
    assert meant_name("mcp_server_get_the_" * 5000, offered, offered).startswith("mcp_server_get")
