# SPDX-License-Identifier: Apache-2.0
"""What is known of a hazard after the runs."""

import pytest

from ci_doctor.imports.analyse.hazard import Closeness
from ci_doctor.imports.confirm.delays import RaceCandidate
from ci_doctor.imports.confirm.run import Confirmation, HeldRun
from ci_doctor.imports.confirm.standing import Standing, judge
from tests.unit.imports.hazards_of import RUN, a_hazard, a_held_run, a_process

UNDECIDED = a_held_run(a_process())


@pytest.mark.parametrize(
    ("runs", "fired_in", "standing"),
    [
        ((RUN,), RUN, Standing.CONFIRMED),
        ((RUN,), None, Standing.SAFE),
        ((UNDECIDED,), None, Standing.OPEN),
        ((), None, Standing.OPEN),
    ],
)
def test_the_runs_with_a_delay_decide(
    runs: tuple[HeldRun, ...], fired_in: HeldRun | None, standing: Standing
) -> None:
    candidate = RaceCandidate(hazards=(a_hazard(),))
    confirmation = Confirmation(candidate=candidate, runs=runs, fired_in=fired_in)

    (judged,) = judge([candidate], [confirmation], confirming=True)

    assert (judged.standing, judged.confirmation) == (standing, confirmation)


@pytest.mark.parametrize(
    ("closeness", "confirming", "standing"),
    [
        (Closeness.FIRED, False, Standing.FIRED),
        (Closeness.FIRED, True, Standing.FIRED),
        (Closeness.NEAR, False, Standing.POSSIBLE),
        (Closeness.LATENT, True, Standing.OPEN),
    ],
)
def test_without_a_run_it_depends_on_whether_runs_were_requested(
    closeness: Closeness, confirming: bool, standing: Standing
) -> None:
    candidate = RaceCandidate(hazards=(a_hazard(closeness=closeness),))

    (judged,) = judge([candidate], [], confirming=confirming)

    assert judged.standing is standing


@pytest.mark.parametrize(
    ("closeness", "handed_out_in", "run", "standing"),
    [
        (Closeness.LATENT, (RUN,), RUN, Standing.HARMLESS),
        (Closeness.HANDED_OUT, (), RUN, Standing.HARMLESS),
        (Closeness.HANDED_OUT, (), UNDECIDED, Standing.OPEN),
    ],
)
def test_what_was_handed_out_and_missed_nothing_is_harmless(
    closeness: Closeness, handed_out_in: tuple[HeldRun, ...], run: HeldRun, standing: Standing
) -> None:
    candidate = RaceCandidate(hazards=(a_hazard(closeness=closeness),))
    confirmation = Confirmation(candidate=candidate, runs=(run,), handed_out_in=handed_out_in)

    (judged,) = judge([candidate], [confirmation], confirming=True)

    assert judged.standing is standing


def test_what_was_handed_out_in_a_run_that_failed_has_fired() -> None:
    candidate = RaceCandidate(hazards=(a_hazard(closeness=Closeness.HANDED_OUT),))

    (judged,) = judge([candidate], [], confirming=False, command_failed=True)

    assert judged.standing is Standing.FIRED
