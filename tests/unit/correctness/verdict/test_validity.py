# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.correctness.verdict.decision import VerdictEvidence
from ci_doctor.correctness.verdict.validity import failing_candidate, missing, void
from ci_doctor.model.verdict import Verdict

BASELINE = ArmStart(arm=Arm.BASELINE, number=1, answers={"r0": "x"})
CANDIDATE = ArmStart(arm=Arm.CANDIDATE, number=1, answers={"r0": "x"})
DEAD = replace(CANDIDATE, answers={"r0": None}, failed=True)


def evidence(
    baseline: list[ArmStart], candidate: list[ArmStart], *, complete: bool = True
) -> VerdictEvidence:
    return VerdictEvidence(
        baseline=baseline,
        candidate=candidate,
        requests=["r0"],
        complete=complete,
    )


def verdict_of(judged: tuple[Verdict, str] | None) -> Verdict | None:
    return judged[0] if judged else None


@pytest.mark.parametrize(
    ("baseline", "candidate", "complete", "tried", "expected"),
    [
        ([], [], True, set(), Verdict.VOID),
        ([replace(BASELINE, failed=True)], [CANDIDATE], True, set(Arm), Verdict.FAILED),
        ([], [], True, {Arm.BASELINE}, Verdict.INFRA),
        ([BASELINE], [], True, set(Arm), Verdict.INFRA),
        ([BASELINE], [], False, {Arm.BASELINE}, Verdict.INCONCLUSIVE),
        ([replace(BASELINE, answers={})], [], False, {Arm.BASELINE}, Verdict.VOID),
        ([BASELINE], [CANDIDATE], True, set(Arm), None),
    ],
)
def test_missing_evidence_decides_before_the_answers(
    baseline: list[ArmStart],
    candidate: list[ArmStart],
    complete: bool,
    tried: set[Arm],
    expected: Verdict | None,
) -> None:
    judged = missing(evidence(baseline, candidate, complete=complete), tried)
    assert verdict_of(judged) is expected


@pytest.mark.parametrize(
    ("baseline", "candidate", "reason"),
    [
        (replace(BASELINE, empty=1), CANDIDATE, "every answer of A1 is empty"),
        (BASELINE, replace(CANDIDATE, proof_missing=("no hits",)), "candidate B1: no hits"),
        (replace(BASELINE, answers={"r0": None}), CANDIDATE, "answered 0 of 1 requests"),
        (
            replace(BASELINE, prompts={"r0": {"prompt_tokens": "7"}}),
            replace(CANDIDATE, prompts={"r0": {"prompt_tokens": "8"}}),
            "prompt_tokens of request r0 is 7 in A1 and 8 in B1",
        ),
    ],
)
def test_void_evidence_proves_nothing(baseline: ArmStart, candidate: ArmStart, reason: str) -> None:
    judged = void(evidence([baseline], [candidate]))
    assert judged is not None
    assert judged[0] is Verdict.VOID
    assert reason in judged[1]


def test_an_empty_candidate_has_changed_and_is_not_void() -> None:
    assert void(evidence([BASELINE], [replace(CANDIDATE, empty=1)])) is None


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        # The looks decide: a dead start is one like any other.
        ([BASELINE] * 6, [DEAD] * 2, None),
        ([BASELINE, replace(BASELINE, failed=True)], [DEAD] * 2, Verdict.FAILED),
        ([BASELINE], [DEAD, CANDIDATE], None),
    ],
)
def test_a_candidate_that_never_works_fails_as_the_baseline_does(
    baseline: list[ArmStart], candidate: list[ArmStart], expected: Verdict | None
) -> None:
    assert verdict_of(failing_candidate(evidence(baseline, candidate))) is expected
