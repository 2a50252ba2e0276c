# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.compare import ArmStart, classify
from ci_doctor.correctness.verdict.decision import Decision, VerdictEvidence
from ci_doctor.correctness.verdict.disputed import disputed_requests, disputed_verdict, varying
from ci_doctor.model.verdict import Verdict


def evidence(baseline: str, candidate: str, *, complete: bool = True) -> VerdictEvidence:
    """A start a word, which answered r0, r1 … with its letters."""
    made = {}
    for arm, words in ((Arm.BASELINE, baseline), (Arm.CANDIDATE, candidate)):
        made[arm] = [
            ArmStart(arm=arm, number=1, answers={f"r{i}": letter for i, letter in enumerate(word)})
            for word in words.split()
        ]
    return VerdictEvidence(
        baseline=made[Arm.BASELINE],
        candidate=made[Arm.CANDIDATE],
        requests=[f"r{index}" for index in range(len(baseline.split(maxsplit=1)[0]))],
        complete=complete,
        lost=False,
    )


def disputed(shown: VerdictEvidence) -> tuple[str, ...]:
    return disputed_requests(shown, classify(shown.requests, shown.starts))


def decision(shown: VerdictEvidence, sometimes: int = 0) -> Decision:
    return disputed_verdict(shown, disputed(shown), sometimes, Rules())


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        ("x x", "y y", ("r0",)),
        ("x y", "z z", ("r0",)),
        ("x y", "x z", ()),
        ("xx xx", "xy xy", ("r1",)),
    ],
)
def test_a_request_is_disputed_if_the_arms_never_agree_on_it(
    baseline: str, candidate: str, expected: tuple[str, ...]
) -> None:
    assert disputed(evidence(baseline, candidate)) == expected


def test_varying_requests_are_those_on_which_the_baseline_differs_from_itself() -> None:
    assert varying(evidence("xx xy", "zz")) == ["r1"]


@pytest.mark.parametrize(
    ("baseline", "candidate", "sometimes", "expected"),
    [
        ("x x x x x", "y y y", 0, Verdict.REGRESSION),
        ("x x x", "y y", 0, Verdict.INCONCLUSIVE),
        # No baseline start repeats another: bytes cannot be compared.
        ("a b c", "d e", 0, Verdict.NONDETERMINISTIC),
        # On other requests the candidate alone wavers, so the environment is not the whole cause.
        ("a b c", "d e", 1, Verdict.INCONCLUSIVE),
        ("a b", "d e", 0, Verdict.INCONCLUSIVE),
    ],
)
def test_a_disputed_request_is_a_regression_only_if_chance_is_ruled_out(
    baseline: str, candidate: str, sometimes: int, expected: Verdict
) -> None:
    assert decision(evidence(baseline, candidate), sometimes).verdict is expected


def test_an_unfinished_schedule_decides_nothing() -> None:
    made = decision(evidence("x x x x x", "y y y", complete=False))
    assert made.verdict is Verdict.INCONCLUSIVE
    assert made.test is not None
    assert made.test.p == 1 / 56
