# SPDX-License-Identifier: Apache-2.0
"""Which delays are tried for a hazard, when it has fired, and when the runs have settled it."""

import pytest

from ci_doctor.imports.analyse.hazard import Closeness, HazardKind
from ci_doctor.imports.confirm.delays import grouped, holds, met, was_held
from ci_doctor.imports.record.events import HeldImport
from tests.unit.imports.hazards_of import a_hazard, a_process


def held(*, came: bool) -> HeldImport:
    return HeldImport(t=1, n=0, k=1, name="lazy", limit_ns=2, met=came)


@pytest.mark.parametrize("kind", [HazardKind.REPLACED, HazardKind.FAILED])
def test_one_module_is_held_while_its_code_runs(kind: HazardKind) -> None:
    (hold,) = holds(a_hazard(kind, "a.b"))

    assert hold.text() == "exec a.b - 2"


@pytest.mark.parametrize("kind", [HazardKind.CYCLE, HazardKind.SUBMODULE])
def test_two_modules_are_held_together_and_then_each_of_them_late(kind: HazardKind) -> None:
    tried = [hold.text() for hold in holds(a_hazard(kind, "a", "m", "b", pair=("a", "b")))]

    assert tried == ["together a b 2", "late a b 2", "late b a 2"]


@pytest.mark.parametrize(
    ("margin_ns", "limit_s"),
    [
        (None, 2.0),
        (0, 2.0),
        (-100_000_000, 2.0),
        (3_000_000_000, 7.0),
        (-3_000_000_000, 7.0),
        (10**12, 30.0),
    ],
)
def test_a_hold_lasts_twice_the_gap_and_a_second_within_bounds(
    margin_ns: int | None, limit_s: float
) -> None:
    assert {hold.limit_s for hold in holds(a_hazard(margin_ns=margin_ns))} == {limit_s}


def test_whether_a_delay_was_made_and_another_thread_came() -> None:
    assert (was_held([a_process()]), met([a_process()])) == (False, False)
    assert (was_held([a_process(held(came=False))]), met([a_process(held(came=False))])) == (
        True,
        False,
    )
    assert met([a_process(), a_process(held(came=True))])


def test_hazards_that_the_same_delays_decide_are_one_candidate_with_the_worst_first() -> None:
    near = a_hazard(closeness=Closeness.NEAR, pid=2)
    hazards = [
        a_hazard(),
        a_hazard(HazardKind.CYCLE, "a", "b"),
        near,
        a_hazard(HazardKind.CYCLE, "a", "c"),
    ]

    groups = grouped(hazards)

    assert [group.worst.modules for group in groups] == [("lazy",), ("a", "b"), ("a", "c")]
    assert groups[0].hazards == (near, hazards[0])
    assert not any(group.has_fired for group in groups)
    assert grouped([a_hazard(closeness=Closeness.FIRED)])[0].has_fired
