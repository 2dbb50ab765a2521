"""Recorded turns driven again: those of simulated sessions, and those of an agent with impure hooks on a real store."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.config.settings import RequestSettings, SessionSettings
from hermes.kernel.effects import (
    Answered,
    Append,
    AskModel,
    CallOpinion,
    Consult,
    Fault,
    FaultKind,
    Learn,
    Notify,
    Objection,
    Ran,
    Record,
    RecoveryChoice,
    RepairKind,
    Rewrite,
    RunTools,
    Spent,
    Steer,
    Stopped,
    TurnEnded,
    Wait,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ReplayDiverged, StopRun, StoreError, UsageError
from hermes.kernel.events import Event, Notice, ToolEnded, ToolStarted
from hermes.kernel.journal import MemoryStore
from hermes.kernel.messages import (
    Image,
    Message,
    ModelReply,
    ModelRequest,
    Replay,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserInput,
)
from hermes.kernel.outcomes import Trail, digest, outcome_from_json, outcome_to_json, state_from_json, state_to_json
from hermes.kernel.replay import replay
from hermes.kernel.sessions import SessionLog
from hermes.kernel.state import Limits, TurnState
from hermes.testing import Call, ScriptedServer, call, calls, fault, text

SIMULATION = Path(__file__).parents[1] / "simulation"
SESSIONS = 200


def over_the_wire(value: Any) -> Any:
    """As a store on disk gives it back; fails for what is no JSON."""
    return json.loads(json.dumps(value))


# ---- The simulator's turns ------------------------------------------------------------------------------------------


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SIMULATION))
    from session import Session

    def run(seed: int) -> Any:
        session = Session(seed, (1, 3, 6, 12)[seed % 4], records=True)
        session.run()
        kept = session.log._session
        kept.outcomes = [(turn, over_the_wire(outcome)) for turn, outcome in kept.outcomes]
        for turn in kept.turns.values():
            turn.state = over_the_wire(turn.state)
        return session

    return run


def test_every_turn_of_simulated_sessions_replays_to_the_same_result(simulated: Any) -> None:
    seen = {"turns": 0, "lives": 0, "stopped": 0, "steered": 0, "crashed": 0, "unrecorded": 0, "rewritten": 0}
    for seed in range(7000, 7000 + SESSIONS):
        session = simulated(seed)
        ends = session.log.load()
        for turn in range(1, ends.info.turns + 1):
            entries, where = session.log.outcomes(turn), f"seed {seed}, turn {turn}"
            if not entries:
                seen["unrecorded"] += 1
                assert turn not in session.results, where
                continue
            result = replay(session.log, turn)
            seen["turns"] += 1
            seen["lives"] += sum("life" in e for e in entries) - 1
            seen["stopped"] += any((e.get("outcome") or {}).get("type") == "stopped" for e in entries)
            seen["steered"] += any("steering" in (e.get("outcome") or {}) for e in entries)
            seen["rewritten"] += any(e.get("effect", "").startswith("record rewrite") for e in entries)
            assert result.reason == session.log._session.turns[turn].reason, where
            seen["crashed"] += result.reason is EndReason.CRASHED
            if (wanted := session.results.get(turn)) is not None:
                assert replace(result, model="") == wanted, where
            else:  # died: after its last Record, or the user said something new instead of a resume
                after = ends if turn == ends.info.turns else session.log.beginning(turn + 1)
                assert result.messages == after.messages, where
    print(seen)
    assert all(seen.values()), seen
    assert seen["turns"] > 3 * SESSIONS


def test_a_turn_that_decides_otherwise_is_told_by_its_first_step(simulated: Any) -> None:
    session = next(s for s in map(simulated, itertools.count(8000)) if 1 in s.results and len(s.log.outcomes(1)) > 6)
    for index, (number, entry) in enumerate(session.log._session.outcomes):
        if number != 1 or "life" in entry:
            continue
        other = {**entry, "effect": "consult the stars"}
        session.log._session.outcomes[index] = (1, other)
        with pytest.raises(ReplayDiverged, match="consult the stars") as diverged:
            replay(session.log, 1)
        before = [e for n, e in session.log._session.outcomes[: index + 1] if n == 1 and "life" not in e]
        assert diverged.value.step == len(before)
        assert diverged.value.found == entry["effect"]
        session.log._session.outcomes[index] = (1, entry)
    replay(session.log, 1)


def test_another_outcome_leads_to_another_effect_and_that_is_said(simulated: Any) -> None:
    """A reply in the place of a recorded one: what the turn then does is not what it did."""
    session = next(s for s in map(simulated, itertools.count(8000)) if 1 in s.results and len(s.log.outcomes(1)) > 6)
    kept = session.log._session.outcomes
    index = next(i for i, (n, e) in enumerate(kept) if n == 1 and e.get("effect", "").startswith("ask"))
    refused = Answered(ModelReply((), StopReason.REFUSAL))
    kept[index] = (1, {**kept[index][1], "outcome": outcome_to_json(refused)})
    with pytest.raises(ReplayDiverged):
        replay(session.log, 1)


# ---- Lives ----------------------------------------------------------------------------------------------------------


def one_turn(entries: list[Any], **state: Any) -> SessionLog:
    """A log whose first turn has these entries of outcomes."""
    store = MemoryStore()
    log = store.open(store.create(directory="/", model="m"))
    log.begin_turn(state_to_json(TurnState(log.id, 0, [], **state)))
    log.record(1, [], iterations=0, attempts=0, outcomes=entries)
    return log


SAYS_HI = {"life": {"input": {"parts": [{"type": "text", "text": "hi"}], "taken": []}, "state": None}}


def test_a_turn_without_outcomes_is_refused_with_the_setting_that_makes_them() -> None:
    with pytest.raises(UsageError, match=r"sessions\.outcomes"):
        replay(one_turn([]), 1)


def test_a_turn_whose_first_life_was_not_recorded_is_refused() -> None:
    state = state_to_json(TurnState("s", 1, []))
    with pytest.raises(UsageError, match="from its start"):
        replay(one_turn([{"life": {"input": None, "state": state}}]), 1)


def test_a_turn_that_the_session_does_not_have_is_said_so() -> None:
    with pytest.raises(UsageError):
        replay(one_turn([SAYS_HI]), 2)


@pytest.mark.parametrize("outcome", [{"type": "dream"}, {"type": "answered"}, "words", {"type": "fault", "kind": "?"}])
def test_an_outcome_that_cannot_be_read_is_an_error_of_the_store(outcome: Any) -> None:
    entries = [SAYS_HI, {"effect": "record append 1 taken 0", "outcome": None}]
    asked = {"effect": "ask primary attempt 1 turn 1 messages", "outcome": outcome}
    with pytest.raises(StoreError, match="turn 1 cannot be read"):
        replay(one_turn([*entries, asked]), 1)


def test_a_turn_that_died_after_its_first_record_ends_crashed_with_what_was_recorded() -> None:
    result = replay(one_turn([SAYS_HI, {"effect": "record append 1 taken 0", "outcome": None}]), 1)
    assert (result.reason, result.answer) == (EndReason.CRASHED, None)
    assert [m.text for m in result.messages] == ["hi"]


def test_more_recorded_than_the_turn_does_is_a_divergence() -> None:
    reply = outcome_to_json(Answered(ModelReply((Text("done"),))))
    entries = [
        SAYS_HI,
        {"effect": "record append 1 taken 0", "outcome": None},
        {"effect": "ask primary attempt 1 turn 1 messages", "outcome": reply},
        {"effect": "record append 1 taken 0", "outcome": None},
        {"effect": "consult turn_end", "outcome": None},
        {"effect": "record end completed", "outcome": None},
    ]
    assert replay(one_turn(entries), 1).answer == "done"
    with pytest.raises(ReplayDiverged, match="the end of the turn") as diverged:
        replay(one_turn([*entries, {"effect": "wait", "outcome": None}]), 1)
    assert diverged.value.step == 6
    with pytest.raises(ReplayDiverged):
        replay(one_turn([*entries, {"life": {"input": None, "state": state_to_json(TurnState("s", 1, []))}}]), 1)


# ---- The JSON forms -------------------------------------------------------------------------------------------------

SPENT = Spent(Usage(1, 2, 3, 4, 5, 0.0), EndReason.BUDGET_COST)
STEERED = (Steer(7, "stop ü"), Steer(8, ""))
RESULT = ToolResult("c1", "unknown", (Text("no"), Image("image/png", "aGk=")), {"todo": None}, Replay("a b", "k", [1]))
REPLY = ModelReply(
    (Thinking("hm", Replay("i", "sig", {"x": 1})), Text("so"), ToolCall("c1", "look", {"a": [1, None]}, "cut")),
    StopReason.CUT,
    Usage(10, cost_usd=0.5),
    "big-model",
    Replay("i", "blocks", [[]]),
)
OUTCOMES: tuple[Any, ...] = (
    None,
    Answered(REPLY, SPENT, STEERED),
    Answered(ModelReply(())),
    Fault(FaultKind.BUDGET, "no money", 1.5, 8000, "half", EndReason.BUDGET_TOKENS, SPENT, STEERED),
    Fault(FaultKind.STALL),
    Fault(FaultKind.RATE_LIMIT, retry_after_s=0.0),
    Fault(
        FaultKind.IMAGE_REFUSED,
        "no",
        row="image",
        status=400,
        input_tokens=0,
        output_limit_tokens=5,
        repair=RepairKind.IMAGES,
        subject="too_large",
        subject_limit=9,
        other_keys=2,
    ),
    Ran((RESULT,), SPENT, STEERED),
    Ran(()),
    Objection("not yet"),
    RecoveryChoice("retry", 2.5),
    RecoveryChoice("give_up"),
    [Message("user", (Text("sum"),), "summary"), Message("tool", (RESULT,))],
)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda o: type(o).__name__)
def test_an_outcome_comes_back_from_json_as_it_was(outcome: Any) -> None:
    assert outcome_from_json(over_the_wire(outcome_to_json(outcome))) == outcome


def test_a_stop_comes_back_with_all_that_it_carried() -> None:
    stop = Stopped(
        EndReason.TERMINATED, partial="ha", results=(RESULT,), spent=SPENT, steering=STEERED, detail="a signal"
    )
    stop.silent_s = 31.5
    back = outcome_from_json(over_the_wire(outcome_to_json(stop)))
    names = ("reason", "partial", "results", "spent", "steering", "detail", "silent_s")
    assert isinstance(back, Stopped)
    assert [getattr(back, n) for n in names] == [getattr(stop, n) for n in names]


@pytest.mark.parametrize("answer", [object(), "keep going", 3, [], ["no message"], {"a": 1}])
def test_an_answer_that_no_turn_takes_is_recorded_as_none(answer: Any) -> None:
    assert outcome_to_json(answer) is None


def test_a_start_state_comes_back_with_messages_and_ids_from_the_journal() -> None:
    messages = [Message("user", (Text("a"),))]
    limits = Limits(None, (0.5,), 2, 1, 99)
    known = {"left:a": "x", "n": [1]}
    state = TurnState("s", 3, messages, frozenset("ab"), frozenset("a"), {"c1"}, known, ("a", "b"), 8000, 4, 5, limits)
    told = over_the_wire(state_to_json(state))
    assert state_from_json(told, "s", 3, messages, frozenset({"c1"})) == state
    assert "c1" not in json.dumps(told)
    with pytest.raises(ValueError, match="1 messages"):
        state_from_json(told, "s", 3, [], frozenset())


def test_digests_tell_effects_apart_and_leave_out_what_grows() -> None:
    long = Message("user", (Text("x" * 10_000),))
    request = ModelRequest((long, long), "be brief", purpose="summary")
    request_of_one = replace(request, messages=(long,))
    ask = AskModel(request, "a:b", 3)
    others = [
        ask,
        replace(ask, target="c:d"),
        replace(ask, attempt=4),
        AskModel(request_of_one, "a:b", 3),
        AskModel(replace(request, note=""), "a:b", 3),
        AskModel(replace(request, purpose="turn"), "a:b", 3),
        RunTools((ToolCall("c1", "t", {}), ToolCall("c2", "t", {}))),
        RunTools((ToolCall("c1", "t", {}),)),
        RunTools((ToolCall("c1", "t", {}),), may_start=False),
        Record((Append((long,)),)),
        Record((Append((long, long)),)),
        Record((Rewrite(0, 1, (long,), "repair"), TurnEnded(EndReason.COMPLETED, "x"))),
        Record((Learn("window:a", 5),)),
        Consult("turn_end", {"answer": long.text}),
        Consult("recovery", {}),
        Wait(5.0, "why"),
    ]
    digests = [digest(effect) for effect in others]
    assert len(set(digests)) == len(others)
    assert max(map(len, digests)) < 100
    assert digest(Wait(9.0, "other")) == digest(Wait(5.0, "why"))
    assert digest(Notify(Notice(kind="x", text="y"))) == ""


def test_what_follows_the_last_record_of_a_life_goes_with_it() -> None:
    trail, state = Trail(), TurnState("s", 1, [])
    trail.begin(state, UserInput.of("hi"), resumed=False)
    trail.add(Notify(Notice(kind="x", text="y")), None)
    assert [sorted(e) for e in trail.take(Record(()))] == [["life"], ["effect", "outcome"]]
    trail.add(Wait(1.0, "why"), None)
    trail.begin(state, None, resumed=True)
    marks = trail.take(Record(()))
    assert marks[0]["life"]["state"] == state_to_json(state)
    assert len(marks) == 2


# ---- An agent, a server, SQLite, and hooks that throw dice -----------------------------------------------------------


class Dice:
    """Hooks as impure as can be; `calls` counts what they and the tool were asked."""

    def __init__(self, seed: int) -> None:
        self.random, self.calls = random.Random(seed), 0

    def throw(self, *faces: Any) -> Any:
        self.calls += 1
        return self.random.choice(faces)

    def hooks(self) -> dict[str, Any]:
        def choose_turn_end(turn: Any) -> Any:
            return self.throw(None, None, Objection(f"think again {self.random.random()}"))

        def choose_recovery(fault: Any, attempts: int) -> Any:
            return self.throw(RecoveryChoice("retry"), RecoveryChoice("give_up"))

        def provide_turn_context(turn: Any) -> Any:
            return self.throw(None, f"context {self.random.random()}")

        def around_model_call(request: Any, proceed: Any) -> Any:
            if self.throw(*[False] * 12, True):
                raise StopRun("the dice say so")
            return proceed(replace(request, note=f"{request.note} {self.random.random()}"))

        def decide_tool_call(call: Any) -> Any:
            return self.throw(None, None, CallOpinion("block", f"no {self.random.random()}"))

        return {name: hook for name, hook in locals().items() if name != "self"}


@pytest.mark.parametrize("seed", range(4))
def test_turns_of_an_agent_with_random_hooks_replay_and_call_nothing(house: Any, seed: int) -> None:
    dice = Dice(seed)
    house.plugin("dice", **dice.hooks())
    (house.work / "a.txt").write_text("one\n", encoding="utf-8")
    numbers = itertools.count(1)

    def answers(request: Any) -> Any:
        n = next(numbers)
        return dice.random.choice(
            (
                text(f"Answer {n}."),
                text(f"Answer {n}."),
                call("read_file", path="a.txt"),
                calls(Call("read_file", {"path": "a.txt"}), Call("todo", {"todos": [{"content": f"t{n}"}]})),
                call("no_such_tool", n=n),
                fault(500, "down"),
                text(f"Cut {n}", finish="length"),
            )
        )

    def meddle(event: Event) -> None:
        if isinstance(event, ToolStarted) and dice.throw(False, True):
            agent.steer(f"mind {next(numbers)}")
        if isinstance(event, ToolEnded) and dice.throw(*[False] * 5, True):
            agent.interrupt()

    with ScriptedServer(answers) as server:
        house.server = server
        agent = house.agent(
            on_event=meddle, sessions=SessionSettings(outcomes=True), request=RequestSettings(attempts=2)
        )
        results = [agent.run(f"question {n}") for n in range(8)]
        assert not server.problems
        called, asked = dice.calls, len(server.requests)
        log = agent.store.open(agent.session_id)
        for n, result in enumerate(results, 1):
            again = replay(log, n)
            assert replace(again, seconds=result.seconds) == result, f"seed {seed}, turn {n}"
        assert (dice.calls, len(server.requests)) == (called, asked)
    print([r.reason.value for r in results], called)
    assert called > len(results)
    assert {entry["outcome"]["type"] for entry in log.outcomes(1) if entry.get("outcome")} >= {"answered"}


def test_a_turn_that_died_and_was_resumed_replays_through_both_lives(house: Any) -> None:
    (house.work / "a.txt").write_text("one\n", encoding="utf-8")
    dies = [True]

    def around_model_call(request: Any, proceed: Any) -> Any:
        if dies[0] and request.messages[-1].role == "tool":
            raise KeyboardInterrupt  # what no guard catches: the turn gets no end, as by a kill
        return proceed(request)

    house.plugin("reaper", around_model_call=around_model_call)
    house.server.add(text("Before."), call("read_file", path="a.txt"), text("One line."), text("Fine."))
    outcomes = SessionSettings(outcomes=True)
    agent = house.agent(sessions=outcomes)
    agent.run("hello")
    with pytest.raises(KeyboardInterrupt):
        agent.run("how many lines?")
    session = agent.session_id
    assert replay(agent.store.open(session), 2).reason is EndReason.CRASHED
    agent.close()
    dies[0] = False
    second = house.agent(sessions=outcomes)
    result = second.resume(session)
    assert (result.turn, result.answer) == (2, "One line.")
    log = second.store.open(session)
    assert sum("life" in entry for entry in log.outcomes(2)) == 2
    assert replace(replay(log, 2), seconds=result.seconds) == result


def test_nothing_is_recorded_and_the_state_is_when_outcomes_are_off(house: Any) -> None:
    house.server.add(text("Fine."))
    agent = house.agent()
    agent.run("how are you?")
    log = agent.store.open(agent.session_id)
    assert list(log.outcomes(1)) == []
    assert log.beginning(1).state["targets"] == ["scripted:any"]
    with pytest.raises(UsageError, match=r"sessions\.outcomes"):
        replay(log, 1)
