"""The ways of calling a hook: order, pruning, what a failure means in each, and what it may not touch."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import pytest

from hermes.kernel.effects import CallOpinion, Fault, FaultKind, Objection, Stopped
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import PluginError, StopRun
from hermes.kernel.hookcalls import HookFailure, strictest_approval, strictest_opinion
from hermes.kernel.messages import ToolCall

Site = Any
Make = Any

START = "from hermes import hookimpl, CallOpinion, Objection, RecoveryChoice, StopRun\n"


def _install(site: Site, name: str, body: str, group: str = "hermes.plugins") -> str:
    module: str = site.plugin(name, START + body, group=group)
    return module


def _gatherer(answer: str, hook: str = "provide_turn_context(turn)") -> str:
    return f"@hookimpl\ndef {hook}:\n    {answer}\n"


def _loaded(site: Site, make_plugins: Make, bodies: dict[str, str], **settings: Any) -> tuple[Any, list[str]]:
    for name, body in bodies.items():
        _install(site, name, body)
    plugins, lines = make_plugins(**settings)
    assert set(plugins.load("hermes.plugins", ["installed"])) == set(bodies)
    return plugins, lines


def test_hooks_are_called_in_name_order_and_plugins_order_comes_first(site: Site, make_plugins: Make) -> None:
    bodies = {name: _gatherer(f"return {name!r}") for name in ("c", "a", "late", "b")}
    plugins, _ = _loaded(site, make_plugins, bodies)
    assert plugins.gather("provide_turn_context", turn=1) == [(n, n) for n in ("a", "b", "c", "late")]
    plugins, _ = make_plugins(order=("late", "c"))
    plugins.load("hermes.plugins", ["a", "late"])
    plugins.load("hermes.plugins", ["b", "c"])
    assert [plugin for plugin, _ in plugins.gather("provide_turn_context", turn=1)] == ["late", "c", "a", "b"]


def test_an_implementation_gets_only_the_arguments_that_it_names(site: Site, make_plugins: Make) -> None:
    bodies = {
        "none": _gatherer("return RecoveryChoice('retry')", "choose_recovery()"),
        "one": _gatherer("return str(attempts)", "choose_recovery(attempts)"),
    }
    plugins, _ = _loaded(site, make_plugins, bodies)
    choice = plugins.choose("choose_recovery", fault=Fault(FaultKind.STALL), attempts=2)
    assert choice.action == "retry"


def test_gather_leaves_out_none_and_what_failed(site: Site, make_plugins: Make) -> None:
    bodies = {
        "a-fails": _gatherer("raise ValueError"),
        "b-none": _gatherer("return None"),
        "c-wrong": _gatherer("return 7"),
        "d-good": _gatherer("return 'text'"),
    }
    plugins, lines = _loaded(site, make_plugins, bodies)
    assert plugins.gather("provide_turn_context", turn=1) == [("d-good", "text")]
    assert lines == []


def test_B122_a_plugin_that_fails_twice_is_benched_with_one_line(site: Site, make_plugins: Make) -> None:
    bodies = {"bad": _gatherer("raise ValueError('again')"), "good": _gatherer("return 'text'")}
    plugins, lines = _loaded(site, make_plugins, bodies)
    for _ in range(5):
        assert plugins.gather("provide_turn_context", turn=1) == [("good", "text")]
    assert len(lines) == 1
    for word in ("bad", "acme-bad", "provide_turn_context", "again", "twice"):
        assert word in lines[0]


@pytest.mark.parametrize("how", ["raise SystemExit(2)", "raise BaseException('x')", "raise GeneratorExit"])
def test_B122_what_is_no_exception_is_caught_as_well(how: str, site: Site, make_plugins: Make) -> None:
    plugins, lines = _loaded(site, make_plugins, {"bad": _gatherer(how)})
    for _ in range(2):
        assert plugins.gather("provide_turn_context", turn=1) == []
    assert len(lines) == 1


def test_B122_a_hook_that_hangs_is_left_behind_at_the_deadline(site: Site, make_plugins: Make) -> None:
    bodies = {"hangs": _gatherer("import threading; threading.Event().wait()"), "z": _gatherer("return 'text'")}
    plugins, lines = _loaded(site, make_plugins, bodies, hook_deadline_s=0.1)
    started = time.monotonic()
    for _ in range(5):
        assert plugins.gather("provide_turn_context", turn=1) == [("z", "text")]
    assert time.monotonic() - started < 2  # two deadlines, then benched
    assert "did not return within 0.1 s" in lines[0]


def test_only_stop_run_stops_a_run_on_purpose(site: Site, make_plugins: Make) -> None:
    plugins, lines = _loaded(site, make_plugins, {"stops": _gatherer("raise StopRun('enough')")})
    with pytest.raises(StopRun, match="enough"):
        plugins.gather("provide_turn_context", turn=1)
    assert lines == []


def test_decide_asks_everybody_and_a_failure_stands_among_the_answers(site: Site, make_plugins: Make) -> None:
    hook = "decide_tool_call(call)"
    bodies = {
        "a": _gatherer("return CallOpinion('ask', 'careful')", hook),
        "b": _gatherer("raise ValueError('broken')", hook),
        "c": _gatherer("return CallOpinion('block', 'never')", hook),
        "d": _gatherer("return None", hook),
        "e": _gatherer("return True", hook),
    }
    plugins, _ = _loaded(site, make_plugins, bodies)
    answers = plugins.decide("decide_tool_call", call=1)
    assert [plugin for plugin, _ in answers] == ["a", "b", "c", "e"]
    failure = answers[1][1]
    assert isinstance(failure, HookFailure)
    assert "broken" in failure.reason
    assert strictest_opinion(answers) == CallOpinion("block", "never")


def test_a_guard_that_is_benched_goes_on_counting_as_ask(site: Site, make_plugins: Make) -> None:
    plugins, lines = _loaded(site, make_plugins, {"guard": _gatherer("raise ValueError", "decide_tool_call(call)")})
    for _ in range(4):
        opinion = strictest_opinion(plugins.decide("decide_tool_call", call=1))
        assert opinion.verdict == "ask"
        assert "guard" in opinion.reason
    assert len(lines) == 1


def test_the_strictest_opinion_wins() -> None:
    ask, block = CallOpinion("ask", "a"), CallOpinion("block", "b")
    assert strictest_opinion([]).verdict == "allow"
    assert strictest_opinion([("x", ask), ("y", block), ("z", CallOpinion())]) == block
    assert strictest_opinion([("x", HookFailure("x", "why"))]) == CallOpinion("ask", "why")
    assert strictest_opinion([("x", CallOpinion("block"))]).reason == "plugin x says so"
    assert strictest_opinion([("x", CallOpinion("ask", "h", hard_line=True)), ("y", block)]).hard_line
    assert strictest_approval([("x", "session"), ("y", "once")]) == "once"
    assert strictest_approval([("x", "session"), ("y", HookFailure("y", ""))]) == "ask"
    assert strictest_approval([("x", "deny"), ("y", HookFailure("y", ""))]) == "deny"
    assert strictest_approval([]) is None


def test_choose_takes_the_first_answer_and_a_failure_passes_to_the_next(site: Site, make_plugins: Make) -> None:
    hook = "choose_turn_end(turn)"
    bodies = {
        "a": _gatherer("raise ValueError", hook),
        "b": _gatherer("return 'a text is no Objection'", hook),
        "c": _gatherer("return None", hook),
        "d": _gatherer("return Objection('go on')", hook),
        "e": _gatherer("raise SystemExit('never asked')", hook),
    }
    plugins, _ = _loaded(site, make_plugins, bodies)
    assert plugins.choose("choose_turn_end", turn=1) == Objection("go on")
    assert plugins.choose("choose_recovery", fault=1, attempts=1) is None


# ---- Around ---------------------------------------------------------------------------------------------------------


def _around(body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"from dataclasses import replace\n@hookimpl\ndef around_tool_call(call, proceed):\n{lines}\n"


CALL = ToolCall("1", "echo", {})


def _echo(call: ToolCall) -> str:
    return f"core[{call.name}]"


def test_wrappers_are_an_onion_that_changes_what_goes_in_and_what_comes_out(site: Site, make_plugins: Make) -> None:
    bodies = {
        name: _around(f"return {name!r} + '(' + proceed(replace(call, name=call.name + '+{name}')) + ')'")
        for name in ("b", "a")
    }
    plugins, _ = _loaded(site, make_plugins, bodies)
    assert plugins.around("around_tool_call", CALL, _echo) == "a(b(core[echo+a+b]))"


def test_a_wrapper_may_answer_without_calling_and_may_call_twice(site: Site, make_plugins: Make) -> None:
    bodies = {"a": _around("return proceed(call) + proceed(call)"), "b": _around("return 'cached'")}
    plugins, _ = _loaded(site, make_plugins, bodies)
    assert plugins.around("around_tool_call", CALL, _echo) == "cachedcached"


def test_a_broken_wrapper_is_the_error_of_that_call_and_named(site: Site, make_plugins: Make) -> None:
    bodies = {"a": _around("return proceed(call)"), "b": _around("proceed(call)\nraise KeyError('broken')")}
    plugins, lines = _loaded(site, make_plugins, bodies)
    for _ in range(2):
        with pytest.raises(PluginError) as caught:
            plugins.around("around_tool_call", CALL, _echo)
        assert (caught.value.plugin, caught.value.distribution) == ("b", "acme-b")
        assert "broken" in str(caught.value)
    assert plugins.around("around_tool_call", CALL, _echo) == "core[echo]"
    assert len(lines) == 1
    assert "plugin b " in lines[0]


@pytest.mark.parametrize("body", ["proceed(call)", "return proceed('no call')", "return proceed()"])
def test_a_wrapper_that_forgets_its_result_or_passes_on_nonsense_is_named(
    body: str, site: Site, make_plugins: Make
) -> None:
    plugins, _ = _loaded(site, make_plugins, {"a": _around(body)})
    with pytest.raises(PluginError, match="acme-a"):
        plugins.around("around_tool_call", CALL, _echo)


@pytest.mark.parametrize(
    "error", [ValueError("the core's own"), Stopped(EndReason.INTERRUPTED), StopRun("x"), KeyboardInterrupt()]
)
def test_what_the_core_raises_comes_out_as_it_is(error: BaseException, site: Site, make_plugins: Make) -> None:
    plugins, lines = _loaded(site, make_plugins, {name: _around("return proceed(call)") for name in ("a", "b")})

    def core(_call: ToolCall) -> str:
        raise error

    for _ in range(3):
        with pytest.raises(type(error)) as caught:
            plugins.around("around_tool_call", CALL, core)
        assert caught.value is error
    assert lines == []


def test_a_wrapper_may_handle_what_the_core_raises(site: Site, make_plugins: Make) -> None:
    body = "try:\n    return proceed(call)\nexcept ValueError:\n    return 'mended'"
    plugins, _ = _loaded(site, make_plugins, {"a": _around(body)})

    def core(_call: ToolCall) -> str:
        raise ValueError

    assert plugins.around("around_tool_call", CALL, core) == "mended"


def test_the_core_may_print_the_answer_while_the_wrapper_may_not(
    site: Site, make_plugins: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    plugins, _ = _loaded(site, make_plugins, {"a": _around("print('plugin')\nreturn proceed(call)")})

    def core(_call: ToolCall) -> str:
        print("answer")
        return ""

    plugins.around("around_tool_call", CALL, core)
    captured = capsys.readouterr()
    assert captured.out == "answer\n"
    assert captured.err == "plugin\n"


# ---- Collect --------------------------------------------------------------------------------------------------------


def test_collect_gives_the_items_of_a_group_and_of_plugins_of_every_kind(site: Site, make_plugins: Make) -> None:
    body = (
        "from hermes import Tool\n@hookimpl\ndef register_tools():\n"
        "    return [Tool('t_{0}', 'says', {{'type': 'object'}}, lambda: 'x')]\n"
    )
    _install(site, "shout", body.format("shout"), "hermes.tools")
    _install(site, "several", body.format("several"), "hermes.plugins")
    plugins, lines = make_plugins()
    plugins.load("hermes.tools", ["installed"])
    plugins.load("hermes.plugins", ["installed"])
    collected = plugins.collect("register_tools", "hermes.tools")
    assert [(plugin, tool.name, tool.toolset) for plugin, tool in collected] == [
        ("several", "t_several", "several"),
        ("shout", "t_shout", "shout"),
    ]
    assert lines == []


def test_collect_passes_what_the_hook_names(site: Site, make_plugins: Make) -> None:
    body = (
        "class Backend:\n    name = 'notes'\n    def __init__(self, home): self.home = home\n"
        "    def snapshot(self): return ''\n    def apply(self, target, operations): ...\n"
        "@hookimpl\ndef register_memory_backends(home):\n    return Backend(home)\n"
    )
    _install(site, "notes", body, "hermes.memory")
    plugins, lines = make_plugins()
    plugins.load("hermes.memory", ["notes"])
    ((_, backend),) = plugins.collect("register_memory_backends", "hermes.memory", settings=None, home="/home")
    assert backend.home == "/home"
    assert lines == []


WRONG_TOOLS = {
    "B118_a_text": ("['not a tool']", "str where a Tool is meant"),
    "a_function": ("[print]", "@hermes.tool"),
    "the_class": ("[Tool]", "class Tool"),
    "run_is_none": ("[Tool('a', 'b', {}, None)]", "run"),
    "a_bad_name": ("[Tool('a b', 'b', {}, print)]", "'a b'"),
    "an_impossible_schema": ("[Tool('a', 'b', {'type': 'array'}, print)]", "array"),
    "a_schema_that_is_no_json": ("[Tool('a', 'b', {'x': print}, print)]", "not JSON"),
    "a_schema_that_is_none": ("[Tool('a', 'b', None, print)]", "JSON Schema"),
    "another_toolset": ("[Tool('a', 'b', {}, print, toolset='other')]", "name both alike"),
    "a_generator_that_raises": ("(Tool('a', 'b', {}, print) if n else 1 / n for n in (1, 0))", "ZeroDivisionError"),
}


@pytest.mark.parametrize("case", WRONG_TOOLS)
def test_one_wrong_item_drops_the_whole_plugin_and_says_so(case: str, site: Site, make_plugins: Make) -> None:
    given, word = WRONG_TOOLS[case]
    _install(
        site, "bad", f"from hermes import Tool\n@hookimpl\ndef register_tools():\n    return {given}\n", "hermes.tools"
    )
    plugins, lines = make_plugins()
    plugins.load("hermes.tools", ["bad"])
    assert plugins.collect("register_tools", "hermes.tools") == []
    assert len(lines) == 1
    for expected in ("bad", "acme-bad", "register_tools", word):
        assert expected in lines[0]
    assert plugins.load("hermes.tools", ["bad"]) == ()
    assert plugins.problem("hermes.tools", "bad") == lines[0]


def test_B118_three_good_tools_and_an_exception_register_nothing(site: Site, make_plugins: Make) -> None:
    body = (
        "from hermes import Tool\n@hookimpl\ndef register_tools():\n"
        "    for n in range(3): yield Tool(f't{n}', 'd', {}, print)\n    raise ValueError('the fourth')\n"
    )
    _install(site, "bad", body, "hermes.tools")
    plugins, lines = make_plugins()
    plugins.load("hermes.tools", ["bad"])
    assert plugins.collect("register_tools", "hermes.tools") == []
    assert "the fourth" in lines[0]


@pytest.mark.parametrize(
    ("group", "hook", "item"),
    [
        ("hermes.wire", "register_wire_formats", "type('W', (), {'name': 'odd'})()"),
        ("hermes.providers", "register_providers", "type('P', (), {'profile': None})()"),
        ("hermes.memory", "register_memory_backends", "object()"),
        ("hermes.prompt", "register_prompt_sections", "type('S', (), {'build': lambda self, c: None})()"),
        ("hermes.prompt", "register_prompt_sections", "type('S', (), {'name': 'x', 'build': print})()"),
        ("hermes.stores", "register_session_stores", "type('S', (), {'name': 'odd', 'open_store': 1})()"),
    ],
)
def test_an_item_that_does_not_play_its_role_is_refused(
    group: str, hook: str, item: str, site: Site, make_plugins: Make
) -> None:
    _install(site, "odd", f"@hookimpl\ndef {hook}():\n    return [{item}]\n", group)
    plugins, lines = make_plugins()
    assert plugins.load(group, ["odd"]) == ("odd",)
    assert plugins.collect(hook, group) == []
    assert "acme-odd" in lines[0]


def test_a_required_plugin_that_registers_nonsense_is_fatal(site: Site, make_plugins: Make) -> None:
    _install(site, "bad", "@hookimpl\ndef register_tools():\n    return [1]\n", "hermes.tools")
    plugins, _ = make_plugins(required=("tools:bad",))
    plugins.load("hermes.tools", ["bad"])
    with pytest.raises(PluginError):
        plugins.collect("register_tools", "hermes.tools")


# ---- What a plugin may not touch ------------------------------------------------------------------------------------


def test_a_hook_prints_to_stderr_and_leaves_the_working_directory(
    site: Site, make_plugins: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    plugins, _ = _loaded(site, make_plugins, {"a": _gatherer("import os; print('hi'); os.chdir('/'); return 'x'")})
    here, stdout = os.getcwd(), sys.stdout
    assert plugins.gather("provide_turn_context", turn=1) == [("a", "x")]
    assert os.getcwd() == here
    assert sys.stdout is stdout
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hi\n")


def test_another_thread_prints_to_stdout_while_a_plugin_runs(
    site: Site, make_plugins: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    module = _install(site, "a", "import threading\ninside, go = threading.Event(), threading.Event()\n" + _gatherer(
        "inside.set(); go.wait(10); print('plugin'); return 'x'"
    ))  # fmt: skip
    plugins, _ = make_plugins()
    plugins.load("hermes.plugins", ["a"])
    asking = threading.Thread(target=lambda: plugins.gather("provide_turn_context", turn=1))
    asking.start()
    assert sys.modules[module].inside.wait(10)
    print("answer")
    sys.modules[module].go.set()
    asking.join(10)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("answer\n", "plugin\n")


def test_strict_makes_a_failing_hook_fatal(site: Site, make_plugins: Make) -> None:
    plugins, _ = _loaded(site, make_plugins, {"a": _gatherer("raise ValueError")}, strict=True)
    with pytest.raises(PluginError, match="acme-a"):
        plugins.gather("provide_turn_context", turn=1)


def test_calls_from_many_threads_at_once_are_all_answered(site: Site, make_plugins: Make) -> None:
    plugins, _ = _loaded(site, make_plugins, {name: _gatherer("return str(turn)") for name in "abc"})
    answers: list[Any] = []

    def ask(number: int) -> None:
        answers.append(
            [answer for _, answer in plugins.gather("provide_turn_context", turn=number)] == [str(number)] * 3
        )

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == [True] * 40
