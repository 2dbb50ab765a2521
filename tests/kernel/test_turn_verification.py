"""An answer that a plugin sends back: it is kept, and delivered when there is no room for another."""

from __future__ import annotations

from driving import call, drive, fresh, reply

from hermes.kernel.effects import Consult, Notify, Objection
from hermes.kernel.endings import EndReason
from hermes.kernel.events import AssistantMessage

VERIFY = Objection("You have not run the tests.")


def test_spec_61631_an_answer_with_the_last_of_the_budget_is_delivered_whatever_a_plugin_would_say() -> None:
    driven = drive(fresh(limits={"iterations": 1}), "go", replies=[reply("Done.")], consult={"turn_end": [VERIFY]})
    assert (driven.result.reason, driven.result.answer) == (EndReason.COMPLETED, "Done.")
    assert not [effect for effect in driven.effects if isinstance(effect, Consult)]


def test_spec_61631_a_budget_that_ends_after_an_objection_leads_to_one_last_answer() -> None:
    driven = drive(
        fresh(limits={"iterations": 2}),
        "go",
        replies=[reply("Done."), reply(call("shell")), reply("Done, and the tests run.")],
        consult={"turn_end": [VERIFY]},
    )
    assert (driven.result.reason, driven.result.answer) == (EndReason.BUDGET_ITERATIONS, "Done, and the tests run.")


def test_spec_65919_the_answer_that_was_sent_back_is_stored_and_only_the_last_one_is_final() -> None:
    driven = drive(fresh(), "go", replies=[reply("Done."), reply("Now it is.")], consult={"turn_end": [VERIFY]})
    assert driven.texts == ["user: go", "assistant: Done.", f"user: {VERIFY.message}", "assistant: Now it is."]
    assert driven.disk[2].origin == "nudge"
    shown = [e.event for e in driven.effects if isinstance(e, Notify) and isinstance(e.event, AssistantMessage)]
    assert [(event.text, event.final) for event in shown] == [("Done.", False), ("Now it is.", True)]
