"""The driver of a turn: hooks that decide the loop, plugins that stop or break it, what it does with its own faults."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hermes.kernel.config.settings import ContextSettings, ModelOptions, PluginSettings, RequestSettings
from hermes.kernel.effects import Objection, RecoveryChoice
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import PluginError, StopRun
from hermes.kernel.events import Waiting
from hermes.kernel.modelcalls import ModelCalls
from hermes.kernel.toolrunner import ToolRunner
from hermes.testing import call, fault, stall, text

PATIENCE_S = 20.0


def stops(*_: Any) -> Any:
    raise StopRun("the plugin had enough")


# ---- choose_turn_end ------------------------------------------------------------------------------------------------


def test_an_objection_keeps_the_turn_going_at_most_three_times(house) -> None:
    seen: list[str] = []

    def object_to(turn: Any) -> Any:
        seen.append(turn.answer)
        return Objection("Not good enough.")

    house.plugin("critic", choose_turn_end=object_to)
    house.server.add(*(text(f"Try {n}.") for n in range(4)))
    result = house.agent().run("go")
    assert (result.answer, result.iterations, seen) == ("Try 3.", 4, ["Try 0.", "Try 1.", "Try 2."])
    assert house.server.requests[1].last["content"] == "Not good enough."
    assert [m.origin for m in result.messages if m.role == "user"] == ["", "nudge", "nudge", "nudge"]


def test_a_critic_that_fails_passes_the_question_on(house) -> None:
    def broken(turn: Any) -> Any:
        raise ValueError("no opinion")

    house.plugin("a", choose_turn_end=broken)
    house.plugin("b", choose_turn_end=lambda turn: Objection("Once more.") if turn.answer == "One." else None)
    house.server.add(text("One."), text("Two."))
    assert house.agent().run("go").answer == "Two."


# ---- choose_recovery ------------------------------------------------------------------------------------------------


def test_a_plugin_may_have_a_fault_tried_again_that_the_table_gives_up(house) -> None:
    seen: list[tuple[str, int]] = []

    def choose(fault: Any, attempts: int) -> Any:
        seen.append((fault.kind.value, attempts))
        return RecoveryChoice("retry", 0.0)

    house.plugin("stubborn", choose_recovery=choose)
    house.server.add(fault(401, "bad key"), fault(401, "bad key"), text("Done."))
    assert house.agent(request=RequestSettings(attempts=3)).run("go").answer == "Done."
    assert seen == [("auth", 1), ("auth", 2)]


def test_a_plugins_retries_count_against_the_same_limit(house) -> None:
    house.plugin("stubborn", choose_recovery=lambda fault: RecoveryChoice("retry", 0.0))
    house.server.add(*(fault(401, "bad key") for _ in range(3)))
    assert house.agent(request=RequestSettings(attempts=3)).run("go").reason is EndReason.AUTH
    assert len(house.server.requests) == 3


def test_a_plugin_may_give_up_at_once(house) -> None:
    house.plugin("faint", choose_recovery=lambda fault: RecoveryChoice("give_up"))
    house.server.add(fault(500, "broken"))
    assert house.agent(request=RequestSettings(attempts=3)).run("go").reason is EndReason.PROVIDER_FAILED
    assert house.seen(Waiting) == []


# ---- provide_turn_context -------------------------------------------------------------------------------------------


def test_what_a_plugin_adds_is_a_part_of_the_stored_user_message(house) -> None:
    house.plugin("b-weather", provide_turn_context=lambda turn: f"It rains; you said {turn.text!r}.")
    house.plugin("a-blank", provide_turn_context=lambda turn: "  \n")
    house.server.add(text("ok"), text("ok"))
    agent = house.agent()
    session = agent.run("go").session_id
    agent.run("again")
    [first, _, second, _] = agent.store.open(session).load().messages
    assert [(p.text, p.origin) for p in first.parts] == [("go", ""), ("It rains; you said 'go'.", "context")]
    assert [p.origin for p in second.parts] == ["", "context"]
    assert "It rains" in str(house.server.requests[0].last["content"])
    assert "It rains" not in house.server.requests[0].system


def test_spec_21069_too_much_context_goes_to_a_file_and_says_where(house) -> None:
    house.plugin("wordy", provide_turn_context=lambda turn: "word " * 10_000)
    house.server.add(text("ok"))
    result = house.agent().run("go")
    added = result.messages[0].parts[1].text
    assert len(added) < 21_000
    [path] = (house.home / "results" / result.session_id).iterdir()
    assert str(path) in added
    assert path.read_text(encoding="utf-8") == "word " * 10_000


def test_a_plugin_that_fails_to_add_is_left_out(house) -> None:
    def broken(turn: Any) -> str:
        raise SystemExit(1)

    house.plugin("broken", provide_turn_context=broken)
    house.plugin("odd", provide_turn_context=lambda turn: 7)
    house.server.add(text("ok"))
    assert [p.text for p in house.agent().run("go").messages[0].parts] == ["go"]


# ---- Observers ------------------------------------------------------------------------------------------------------


def test_observers_see_session_and_turn_begin_and_end(house) -> None:
    seen: list[tuple[str, Any]] = []
    house.plugin(
        "watch",
        before_session=lambda session: seen.append(("before_session", session.id)),
        before_turn=lambda turn: seen.append(("before_turn", (turn.turn, turn.text))),
        after_turn=lambda turn: seen.append(("after_turn", (turn.turn, turn.reason, turn.answer))),
        after_session=lambda session: seen.append(("after_session", session.id)),
    )
    house.server.add(text("One."), fault(401, "bad key"))
    agent = house.agent()
    session = agent.run("go").session_id
    agent.run("more")
    agent.close()
    assert seen == [
        ("before_session", session),
        ("before_turn", (1, "go")),
        ("after_turn", (1, "completed", "One.")),
        ("before_turn", (2, "more")),
        ("after_turn", (2, "auth", None)),
        ("after_session", session),
    ]


def test_an_observer_of_events_gets_deltas_only_when_it_names_them(house) -> None:
    plain: list[str] = []
    deltas: list[str] = []

    def on_event(event: Any) -> None:
        plain.append(type(event).__name__)

    def on_delta(event: Any, delta: bool) -> None:
        if delta:
            deltas.append(event.text)

    house.plugin("plain", on_event=on_event)
    house.plugin("fine", on_event=on_delta)
    house.server.add(text("one two three"))
    agent = house.agent()
    agent.run("go")
    agent.close()
    assert "".join(deltas) == "one two three"
    assert "TextDelta" not in plain
    assert plain[-1] == "TurnFinished"


def test_a_hanging_observer_holds_nothing_up(house) -> None:
    gate = threading.Event()
    house.plugin("hang", before_turn=lambda turn: gate.wait(PATIENCE_S))
    house.server.add(text("Done."))
    agent = house.agent()
    assert agent.run("go").answer == "Done."
    gate.set()


# ---- StopRun --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hook", "answer"),
    [
        ("provide_turn_context", None),
        ("around_model_call", None),
        ("choose_recovery", None),
        ("choose_turn_end", "Done."),
    ],
)
def test_a_stop_on_purpose_ends_the_turn_as_an_interrupt(house, hook: str, answer: str | None) -> None:
    hooks: dict[str, Any] = {
        "provide_turn_context": lambda turn: stops(),
        "around_model_call": lambda request, proceed: stops(),
        "choose_recovery": lambda fault: stops(),
        "choose_turn_end": lambda turn: stops(),
    }
    house.plugin("stop", **{hook: hooks[hook]})
    if hook in ("choose_recovery", "choose_turn_end"):
        house.server.add(fault(500, "broken") if hook == "choose_recovery" else text("Done."))
    agent = house.agent()
    result = agent.run("go")
    assert (result.reason, result.detail, result.answer) == (EndReason.INTERRUPTED, "the plugin had enough", answer)
    info = agent.store.info(result.session_id)
    assert (info.end_reason, result.messages[-1].role) == ("interrupted", "assistant")
    assert agent.store.open(result.session_id).load().messages[0].text == "go"


def test_an_observer_may_stop_a_turn_from_its_own_thread(house) -> None:
    house.plugin("stop", before_model_call=lambda call: stops())
    house.server.add(stall(0))
    result = house.agent().run("go")
    assert (result.reason, result.detail) == (EndReason.INTERRUPTED, "the plugin had enough")


# ---- Faults of our own ----------------------------------------------------------------------------------------------


def test_spec_66267_a_fault_of_our_own_closes_the_turn_and_says_what_it_was(
    house, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any, effect: Any, token: Any) -> Any:
        raise ZeroDivisionError("a bug")

    agent = house.agent()
    with monkeypatch.context() as patch:
        patch.setattr(ModelCalls, "ask", broken)
        result = agent.run("go")
    assert (result.reason, result.detail) == (EndReason.INTERNAL, "ZeroDivisionError: a bug")
    assert result.messages[-1].origin == "closing"
    house.server.add(text("Well again."))
    assert agent.run("again").answer == "Well again."


def test_a_fault_of_our_own_beside_a_running_tool_does_not_tell_that_it_never_ran(
    house, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any, result: Any) -> Any:
        raise ZeroDivisionError("a bug")

    house.server.add(call("todo", todos=[]))
    agent = house.agent()
    with monkeypatch.context() as patch:
        patch.setattr(ToolRunner, "_finished", broken)
        result = agent.run("go")
    assert result.reason is EndReason.INTERNAL
    assert "not run" not in result.messages[2].results[0].text
    assert result.messages[2].results[0].status == "unknown"


@pytest.mark.parametrize("hook", ["choose_turn_end", "decide_tool_call", "around_model_call"])
def test_any_failure_of_a_plugin_is_fatal_when_strict(house, monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    def broken() -> Any:
        raise ValueError("strictly broken")

    hooks: dict[str, Any] = {
        "choose_turn_end": lambda turn: broken(),
        "decide_tool_call": lambda call: broken(),
        "around_model_call": lambda request, proceed: broken(),
    }
    monkeypatch.setenv("HERMES_STRICT_PLUGINS", "1")
    house.plugin("broken", **{hook: hooks[hook]})
    if hook != "around_model_call":
        house.server.add(call("todo", todos=[]) if hook == "decide_tool_call" else text("Done."))
    result = house.agent().run("go")
    assert result.reason is EndReason.PLUGIN
    assert "strictly broken" in result.detail
    assert result.messages[-1].role == "assistant"


def test_a_required_plugin_that_is_missing_begins_nothing(house) -> None:
    agent = house.agent(plugins=PluginSettings(required=("absent",)))
    with pytest.raises(PluginError, match="absent"):
        agent.run("go")


# ---- A context engine that replaces ours ----------------------------------------------------------------------------


def test_an_engine_that_makes_the_conversation_shorter_lets_the_turn_go_on(house) -> None:
    class Engine:
        name = "scissors"

        def compress(self, messages: Any, window_tokens: int | None) -> Any:
            return messages[-1:]

    seen: list[str] = []
    house.plugin("scissors", group="hermes.context", register_context_engines=lambda: [Engine()])
    house.plugin("watch", after_compression=lambda compression: seen.append(compression.reason))
    full = fault(400, "maximum context length is 8192 tokens", code="context_length_exceeded")
    house.server.add(text("One."), full, text("Two."))
    agent = house.agent(context=ContextSettings(engine="scissors"), model_options=ModelOptions(context_window=8192))
    session = agent.run("go").session_id
    result = agent.run("more")
    agent.close()
    assert result.answer == "Two.", result.detail
    assert [m["content"] for m in house.server.requests[2].messages[1:]] == ["more"]
    assert len(seen) == 1
    again = house.agent()
    again.attach(session)
    assert [m.text for m in again.store.open(session).load().messages] == ["more", "Two."]


def test_an_engine_that_breaks_leaves_the_conversation_as_it_is(house) -> None:
    class Engine:
        name = "broken"

        def compress(self, messages: Any, window_tokens: int | None) -> Any:
            raise RuntimeError("no scissors")

    house.plugin("broken", group="hermes.context", register_context_engines=lambda: [Engine()])
    house.server.add(fault(400, "maximum context length is 8192 tokens", code="context_length_exceeded"))
    result = house.agent(context=ContextSettings(engine="broken")).run("go")
    assert result.reason is EndReason.CONTEXT_FULL
    assert result.messages[0].text == "go"
