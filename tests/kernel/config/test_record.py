"""The cheap frozen classes behave as generated dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from hermes.kernel.config.settings import ApprovalRule, LimitSettings, ProviderSettings, Settings


def test_they_are_dataclasses() -> None:
    limits = dataclasses.replace(LimitSettings(), iterations=5)
    assert limits == LimitSettings(iterations=5) != LimitSettings()
    assert dataclasses.asdict(limits)["iterations"] == 5
    assert hash(limits) == hash(LimitSettings(5))
    assert [field.name for field in dataclasses.fields(ApprovalRule)] == ["decide", "tool", "match"]
    assert dataclasses.replace(Settings(), limits=limits).limits.iterations == 5
    assert limits != dataclasses.asdict(limits)


def test_they_are_frozen_and_slotted() -> None:
    limits: Any = LimitSettings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        limits.iterations = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        del limits.iterations
    assert not hasattr(limits, "__dict__")


def test_they_can_be_copied_and_pickled() -> None:
    settings = Settings(providers={"w": ProviderSettings(api_key="k")})
    assert copy.deepcopy(settings) == settings == pickle.loads(pickle.dumps(settings)) == copy.copy(settings)


def test_their_repr_leaves_out_what_is_marked() -> None:
    assert repr(ApprovalRule("ask", "x")) == "ApprovalRule(decide='ask', tool='x', match=None)"
    assert "sk-" not in repr(ProviderSettings(api_key="sk-x", headers={"A": "sk-y"}))


def test_defaults_are_not_shared() -> None:
    assert Settings().providers is not Settings().providers


def test_wrong_arguments_are_refused() -> None:
    make: Any = ApprovalRule
    for args, given in (((), {}), (("ask",), {"decide": "ask"}), (("ask",), {"other": 1}), ((1, 2, 3, 4), {})):
        with pytest.raises(TypeError):
            make(*args, **given)
