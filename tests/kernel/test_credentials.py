"""Several keys for one provider: which is next, which rest, and that no key is ever seen."""

from __future__ import annotations

import json
import random
import stat
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from hermes.kernel.config.settings import PoolSettings, ProviderSettings
from hermes.kernel.credentials import RATE_LIMIT_COOLS_S, REFUSED_RESTS_S, STATE_FILE, Pool, Pools, keys_of
from hermes.kernel.effects import Fault, FaultKind
from hermes.kernel.errors import ProviderError
from hermes.kernel.keystate import FORGOTTEN_AFTER_S, KeyStates, states_in
from hermes.kernel.providers import Profile

KEYS = ("key-alpha-1", "key-beta-22", "key-gamma-3")
LIMITED, BILLING, AUTH = (Fault(kind) for kind in (FaultKind.RATE_LIMIT, FaultKind.BILLING, FaultKind.AUTH))


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / STATE_FILE


def pool(path: Path, clock: Clock, strategy: str = "fill_first", keys: tuple[str, ...] = KEYS) -> Pool:
    """A pool as another process would make it: what it knows comes from the file."""
    return Pool(keys, PoolSettings(strategy, cooldown_s=3600), KeyStates(path, clock))


# ---- Which keys there are -------------------------------------------------------------------------------------------

ROW = Profile("p", "https://p.example", key_variables=("P_KEY", "OTHER_KEY"))


def test_the_settings_keys_win_and_are_all_kept_each_once() -> None:
    given = ProviderSettings(api_key=("a", " b ", "a", ""))
    assert keys_of(ROW, given, {"P_KEY": "c"}) == ("a", "b")
    assert keys_of(ROW, ProviderSettings(api_key="a"), {"P_KEY": "c"}) == ("a",)


def test_else_the_first_variable_that_is_set_has_the_key() -> None:
    assert keys_of(ROW, ProviderSettings(), {"P_KEY": "  ", "OTHER_KEY": "o"}) == ("o",)


def test_a_missing_key_says_what_to_set_unless_it_may_be_missing() -> None:
    with pytest.raises(ProviderError, match=r"set P_KEY, or providers\.p\.api_key") as told:
        keys_of(ROW, ProviderSettings(), {})
    assert told.value.kind == "auth"
    assert keys_of(Profile("l", local=True, key_variables=("L_KEY",)), ProviderSettings(), {}) == ()
    assert keys_of(Profile("o", key_variables=("O",), quirks={"key_optional": True}), ProviderSettings(), {}) == ()
    assert keys_of(Profile("n"), ProviderSettings(), {}) == ()


# ---- Strategies -----------------------------------------------------------------------------------------------------


def test_fill_first_stays_with_the_first_key_and_writes_nothing(path: Path, clock: Clock) -> None:
    assert {pool(path, clock).next_key() for _ in range(5)} == {KEYS[0]}
    assert not path.exists()


def test_round_robin_goes_on_where_another_process_stopped(path: Path, clock: Clock) -> None:
    taken = [pool(path, clock, "round_robin").next_key() for _ in range(7)]
    assert taken == [*KEYS, *KEYS, KEYS[0]]


def test_least_used_makes_up_for_a_key_that_rested(path: Path, clock: Clock) -> None:
    mine = pool(path, clock, "least_used")
    mine.cool(KEYS[1], 50, "rate_limit")
    assert Counter(mine.next_key() for _ in range(4)) == {KEYS[0]: 2, KEYS[2]: 2}
    clock.now += 51
    assert [mine.next_key() for _ in range(2)] == [KEYS[1]] * 2


def test_random_takes_every_key_in_time(path: Path, clock: Clock) -> None:
    mine = pool(path, clock, "random")
    mine._chance = random.Random(7)
    assert {mine.next_key() for _ in range(60)} == set(KEYS)


@pytest.mark.parametrize("strategy", ["fill_first", "round_robin", "least_used", "random"])
def test_a_resting_key_is_not_taken_while_another_is_ready(path: Path, clock: Clock, strategy: str) -> None:
    mine = pool(path, clock, strategy)
    mine.cool(KEYS[0], 100, "auth")
    mine.cool(KEYS[2], 100, "auth")
    assert {mine.next_key() for _ in range(10)} == {KEYS[1]}


@pytest.mark.parametrize("strategy", ["fill_first", "round_robin", "least_used", "random"])
def test_when_all_rest_the_one_that_is_ready_first_is_taken(path: Path, clock: Clock, strategy: str) -> None:
    mine = pool(path, clock, strategy)
    for key, seconds in zip(KEYS, (300, 100, 200), strict=True):
        mine.cool(key, seconds, "rate_limit")
    assert mine.next_key() == KEYS[1]


def test_spec_31273_when_all_rest_a_key_that_nobody_pays_for_is_taken_last(path: Path, clock: Clock) -> None:
    mine = pool(path, clock)
    for key, seconds, why in zip(KEYS, (100, 300, 200), ("billing", "rate_limit", "rate_limit"), strict=True):
        mine.cool(key, seconds, why)
    assert mine.next_key() == KEYS[2]


@pytest.mark.parametrize("strategy", ["fill_first", "round_robin", "least_used", "random"])
def test_a_single_key_is_used_as_it_is(path: Path, clock: Clock, strategy: str) -> None:
    mine = pool(path, clock, strategy, KEYS[:1])
    mine.cool(KEYS[0], 100, "auth")
    assert mine.next_key() == KEYS[0]


# ---- Resting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "rests_s"),
    [
        (LIMITED, RATE_LIMIT_COOLS_S),
        (Fault(FaultKind.RATE_LIMIT, retry_after_s=7), 7),
        (BILLING, 3600),
        (AUTH, 3600),
        (Fault(FaultKind.BILLING, retry_after_s=90_000), 90_000),
        (Fault(FaultKind.BILLING, retry_after_s=0), REFUSED_RESTS_S),
    ],
)
def test_a_refused_key_rests_as_long_as_its_fault_says(path: Path, clock: Clock, fault: Fault, rests_s: float) -> None:
    mine = pool(path, clock)
    assert mine.refused(KEYS[0], fault) == 2
    assert mine.next_key() == KEYS[1]
    clock.now += rests_s - 1
    assert pool(path, clock).next_key() == KEYS[1]
    clock.now += 2
    assert pool(path, clock).next_key() == KEYS[0]


@pytest.mark.parametrize("kind", [k for k in FaultKind if k not in ("rate_limit", "billing", "auth")])
def test_spec_14038_15297_other_faults_are_not_the_keys(path: Path, clock: Clock, kind: FaultKind) -> None:
    mine = pool(path, clock)
    assert mine.refused(KEYS[0], Fault(kind, retry_after_s=9)) == 0
    assert mine.next_key() == KEYS[0]
    assert not path.exists()


def test_the_count_of_other_keys_falls_as_one_after_the_other_is_refused(path: Path, clock: Clock) -> None:
    mine = pool(path, clock)
    left = [mine.refused(mine.next_key(), LIMITED) for _ in KEYS]
    assert left == [2, 1, 0]


def test_a_longer_rest_is_not_made_shorter(path: Path, clock: Clock) -> None:
    mine = pool(path, clock)
    mine.cool(KEYS[0], 3600, "billing")
    mine.cool(KEYS[0], 5, "rate_limit")
    clock.now += 60
    assert mine.next_key() == KEYS[1]


def test_spec_11314_13636_a_pool_of_one_has_no_other_key(path: Path, clock: Clock) -> None:
    assert pool(path, clock, keys=KEYS[:1]).refused(KEYS[0], LIMITED) == 0


def test_spec_33088_a_key_of_another_provider_is_left_alone(path: Path, clock: Clock) -> None:
    mine = pool(path, clock)
    assert mine.refused("key-of-the-fallback", AUTH) == 0
    assert not path.exists()


# ---- The file -------------------------------------------------------------------------------------------------------


def test_spec_9331_keys_that_this_process_does_not_have_stay_in_the_file(path: Path, clock: Clock) -> None:
    pool(path, clock).cool(KEYS[0], 1000, "billing")
    pool(path, clock, keys=("another-key-1", "another-key-2")).cool("another-key-1", 1000, "auth")
    assert pool(path, clock).next_key() == KEYS[1]
    assert len(json.loads(path.read_text())["keys"]) == 2


def test_no_key_is_in_the_file_and_the_salt_differs_from_home_to_home(tmp_path: Path, clock: Clock) -> None:
    files = [tmp_path / name / STATE_FILE for name in ("a", "b")]
    for file in files:
        pool(file, clock, "round_robin").next_key()
        pool(file, clock).refused(KEYS[0], BILLING)
        for key in KEYS:
            assert key not in file.read_text()
            assert key[-6:] not in file.read_text()
    digests = [set(json.loads(file.read_text())["keys"]) for file in files]
    assert not digests[0] & digests[1]
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"salt": "s"}', '{"salt": "s", "keys": {"x": {"colour": 1}}}',
             '{"salt": "s", "keys": {"x": {"rests_until": "soon"}}}', "\x00\xff"],
)  # fmt: skip
def test_a_damaged_file_counts_as_empty_and_is_replaced(path: Path, clock: Clock, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text, encoding="latin-1")
    assert pool(path, clock).next_key() == KEYS[0]
    pool(path, clock).cool(KEYS[0], 100, "auth")
    assert pool(path, clock).next_key() == KEYS[1]


def test_without_a_place_to_write_the_process_goes_on_with_what_it_knows(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    mine = pool(tmp_path / "home" / STATE_FILE, clock)
    assert mine.refused(KEYS[0], AUTH) == 2
    assert mine.next_key() == KEYS[1]


def test_keys_that_are_no_longer_used_are_dropped_in_time(path: Path, clock: Clock) -> None:
    pool(path, clock).cool(KEYS[0], 1, "auth")
    clock.now += FORGOTTEN_AFTER_S + 1
    pool(path, clock).cool(KEYS[1], 1, "auth")
    assert len(json.loads(path.read_text())["keys"]) == 1


def test_agents_of_one_process_share_what_is_known(tmp_path: Path) -> None:
    first, second = (Pools(PoolSettings(), tmp_path) for _ in range(2))
    for pools in (first, second):
        pools.add("p", KEYS)
        pools.add("q", ())
    mine, theirs = first.of("p"), second.of("p")
    assert mine is not None
    assert theirs is not None
    assert mine.states is theirs.states is states_in(tmp_path / STATE_FILE)
    mine.cool(KEYS[0], 1000, "billing")
    assert theirs.next_key() == KEYS[1]
    assert first.of("q") is None
    assert KEYS[0] not in repr(mine)


def test_threads_lose_no_count(path: Path, clock: Clock) -> None:
    mine = pool(path, clock, "round_robin")
    taken: list[str] = []

    def take() -> None:
        taken.extend(mine.next_key() for _ in range(20))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(taken) == Counter(KEYS * 26 + KEYS[:2])


OTHER_PROCESS = """
import sys
from pathlib import Path
from hermes.kernel.config.settings import PoolSettings
from hermes.kernel.credentials import Pool
from hermes.kernel.keystate import KeyStates

pool = Pool(tuple(sys.argv[2:]), PoolSettings("least_used"), KeyStates(Path(sys.argv[1])))
for _ in range(30):
    pool.next_key()
"""


def test_processes_lose_no_count(path: Path) -> None:
    command = [sys.executable, "-c", OTHER_PROCESS, str(path), *KEYS]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    uses = [state["uses"] for state in json.loads(path.read_text())["keys"].values()]
    assert sorted(uses) == [30, 30, 30]
