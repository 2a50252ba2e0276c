# SPDX-License-Identifier: Apache-2.0
"""From the results of checks to a verdict."""

import pytest
from msgspec.structs import replace

from ci_doctor.checks.check import CheckResult, DoctorCheck, Fault, FinishedCheck, problem
from ci_doctor.checks.outcome import summary_of, verdict_of
from ci_doctor.checks.settings import NONE, Workload
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule
from ci_doctor.model.verdict import Verdict

RULE = Rule(id="doctor/test", severity=Severity.ERROR, meaning="A test.", remedy="Nothing.")
VLLM = frozenset({Workload.VLLM})


def ended(
    *severities: tuple[Severity, Fault],
    unknown: str | None = None,
    needed_for: frozenset[Workload] = NONE,
) -> FinishedCheck:
    problems = []
    for severity, fault in severities:
        problems.append(problem(RULE, "it is so", severity=severity, fault=fault))
    result = CheckResult(summary="s", problems=tuple(problems), unknown=unknown)
    check = DoctorCheck(id="test/one", title="one", run=lambda _: result, needed_for=needed_for)
    return FinishedCheck(check=check, result=result, duration_s=0.01)


OK = ended()
UNKNOWN = ended(unknown="why")
NEEDED_UNKNOWN = ended(unknown="why", needed_for=VLLM)
MEASURED = replace(OK, check=replace(OK.check, is_measurement=True))
UNMEASURED = replace(UNKNOWN, check=replace(UNKNOWN.check, is_measurement=True))
WARNING = ended((Severity.WARNING, Fault.REPOSITORY))
OF_MACHINE = ended((Severity.ERROR, Fault.ENVIRONMENT))
OF_REPOSITORY = ended((Severity.ERROR, Fault.REPOSITORY))


@pytest.mark.parametrize(
    ("finished", "workload", "strict", "verdict"),
    [
        pytest.param([], None, False, Verdict.VOID, id="nothing was checked"),
        pytest.param([OK], None, True, Verdict.PASS, id="all is well"),
        pytest.param([OK, WARNING], None, True, Verdict.PASS, id="warnings change nothing"),
        pytest.param([OK, UNKNOWN], None, False, Verdict.PASS, id="unknown, nobody is strict"),
        pytest.param([UNKNOWN], None, False, Verdict.VOID, id="nothing is known"),
        pytest.param([OK, UNMEASURED], None, False, Verdict.VOID, id="nothing was measured"),
        pytest.param([MEASURED, UNMEASURED], None, False, Verdict.PASS, id="a part was measured"),
        pytest.param([OK, UNKNOWN], None, True, Verdict.VOID, id="unknown, strict"),
        pytest.param([OK, UNKNOWN], Workload.VLLM, True, Verdict.PASS, id="vLLM does not need it"),
        pytest.param([NEEDED_UNKNOWN], Workload.VLLM, True, Verdict.VOID, id="vLLM needs it"),
        pytest.param(
            [OK, NEEDED_UNKNOWN], Workload.SGLANG, True, Verdict.PASS, id="SGLang does not"
        ),
        pytest.param([UNKNOWN, OF_MACHINE], None, True, Verdict.INFRA, id="an error stands first"),
        pytest.param(
            [OF_MACHINE, OF_REPOSITORY], None, False, Verdict.FAILED, id="no agent cures the change"
        ),
    ],
)
def test_the_verdict(
    finished: list[FinishedCheck], workload: Workload | None, strict: bool, verdict: Verdict
) -> None:
    assert verdict_of(finished, workload, strict=strict) is verdict


def test_an_error_beside_an_unknown_part_is_an_error() -> None:
    both = ended((Severity.ERROR, Fault.ENVIRONMENT), unknown="the rest")

    assert summary_of([both], None, Verdict.INFRA) == "this machine is not fit: 1 error"


def test_the_summary_counts_by_status_the_worst_first() -> None:
    finished = [OK, OK, WARNING, UNKNOWN, OF_MACHINE, OF_MACHINE]

    summary = summary_of(finished, Workload.VLLM, Verdict.INFRA)

    assert summary == "this machine is not fit for vllm: 2 errors, 1 unknown, 1 warning, 2 ok"


def test_a_machine_of_which_a_part_is_unknown_is_fit_as_far_as_is_known() -> None:
    summary = summary_of([OK, UNKNOWN], None, Verdict.PASS)

    assert summary == "as far as is known, this machine is fit: 1 unknown, 1 ok"
