# SPDX-License-Identifier: Apache-2.0
from ci_doctor.correctness.estimate import assumed
from ci_doctor.correctness.pace import Pace
from ci_doctor.correctness.settings import Rules
from tests.unit.correctness.experiments import DEATH, result

PACE = Pace(prior=assumed(100, 1, 2), rules=Rules(), archived=0, deadline=1000.0)
WHOLE = result("A1", "one")


def test_a_start_that_died_or_was_cut_short_measures_nothing() -> None:
    dead = result("B1", "one", failure=DEATH)
    cut = result("A2", "one", cut_short=True)
    assert "(assumed:" in PACE.outlook([dead, cut], 0.0)
    assert "(measured in 1 start)" in PACE.outlook([WHOLE, dead, cut], 0.0)


def test_an_unfinished_schedule_is_resumed_and_a_finished_one_is_made_anew() -> None:
    argv = ["correctness"]
    assert "ci-doctor correctness --resume dir --budget" in PACE.next_run(
        [WHOLE], argv, "dir", 12.0
    )
    names = ("A1", "B1", "A2", "A3", "B2", "A4", "B3", "A5")
    every = [result(name, "one") for name in names]
    assert "ci-doctor correctness --retries 5 --budget" in PACE.next_run(every, argv, "dir", 12.0)
