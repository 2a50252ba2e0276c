# SPDX-License-Identifier: Apache-2.0
"""The verdict of a run of checks, and what is printed and reported."""

import pytest
from msgspec.structs import replace

from ci_doctor.checks.check import CheckResult, DoctorCheck, Fault, FinishedCheck, problem
from ci_doctor.checks.outcome import DoctorRun, outcome_of, summary_of, verdict_of
from ci_doctor.checks.settings import NONE, Workload
from ci_doctor.model.facts.preparing import DoctorFacts
from ci_doctor.model.outcome import CaseOutcome, Outcome, Rule, Severity, Verdict

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


PARTLY = ended((Severity.ERROR, Fault.ENVIRONMENT), unknown="the rest")


@pytest.mark.parametrize(
    ("finished", "workload", "verdict", "summary"),
    [
        ([PARTLY], None, Verdict.INFRA, "this machine is not fit: 1 error"),
        (
            [OK, OK, WARNING, UNKNOWN, OF_MACHINE, OF_MACHINE],
            Workload.VLLM,
            Verdict.INFRA,
            "this machine is not fit for vllm: 2 errors, 1 unknown, 1 warning, 2 ok",
        ),
        (
            [OK, UNKNOWN],
            None,
            Verdict.PASS,
            "as far as is known, this machine is fit: 1 unknown, 1 ok",
        ),
    ],
)
def test_the_summary_counts_by_status_the_worst_first(
    finished: list[FinishedCheck], workload: Workload | None, verdict: Verdict, summary: str
) -> None:
    assert summary_of(finished, workload, verdict) == summary


def named(name: str) -> DoctorCheck:
    return DoctorCheck(id=name, title=f"the {name}", run=lambda _: CheckResult(summary="fine"))


def ended_of_outcome(
    name: str, result: CheckResult, duration_s: float | None = 0.0125
) -> FinishedCheck:
    return FinishedCheck(check=named(name), result=result, duration_s=duration_s)


FINE = ended_of_outcome("machine/disk", CheckResult(summary="60 GiB free", figures={"free": 60}))
BAD = ended_of_outcome(
    "machine/shm",
    CheckResult(summary="64 MiB", problems=(problem(RULE, "64 MiB are too little"),)),
)
LATE = ended_of_outcome("gpu/one", CheckResult(summary="no answer", unknown="no answer"), None)
LATE_TOO = ended_of_outcome("gpu/two", CheckResult(summary="no answer", unknown="no answer"), None)


def outcome(*finished: FinishedCheck, show_all: bool = False) -> Outcome:
    not_run = {named("git/one"): "no checkout", named("git/two"): "no checkout"}
    run = DoctorRun(finished=finished, not_run=not_run, workload=None, strict=False)
    return outcome_of(run, show_all=show_all)


def table(outcome: Outcome, title: str) -> list[tuple[object, ...]]:
    for each in outcome.tables:
        if each.title == title:
            return [(row.label, *(cell.value for cell in row.cells)) for row in each.rows]
    return []


def test_what_is_ok_is_not_listed_and_what_makes_no_sense_here_is_counted_by_area() -> None:
    made = outcome(FINE)

    assert [each.title for each in made.tables] == ["Not run"]
    assert table(made, "Not run") == [("no checkout", "git (2 checks)")]
    assert made.verdict is Verdict.PASS


def test_all_lists_each_check_with_its_status_value_and_time() -> None:
    made = outcome(FINE, BAD, show_all=True)

    assert table(made, "Checks") == [
        ("machine/disk", "ok", 0.0125, "60 GiB free"),
        ("machine/shm", "error", 0.0125, "64 MiB"),
    ]
    assert table(made, "Not run") == [("no checkout", "git/one, git/two")]
    assert [each.summary for each in made.findings] == ["64 MiB are too little"]


def test_unknown_checks_with_one_reason_share_a_row() -> None:
    assert table(outcome(LATE, FINE, LATE_TOO), "Unknown") == [("no answer", "gpu/one, gpu/two")]


@pytest.mark.parametrize(
    ("unknown", "title", "row"),
    [
        (None, "Measured", ("gpu/speed", "4,300 GB/s")),
        ("no torch", "Unknown", ("no torch", "gpu/speed")),
    ],
)
def test_a_measurement_is_listed_once_even_if_it_is_ok(
    unknown: str | None, title: str, row: tuple[str, str]
) -> None:
    result = CheckResult(summary="4,300 GB/s", unknown=unknown)
    check = DoctorCheck(id="gpu/speed", title="speed", run=lambda _: result, is_measurement=True)

    made = outcome(FINE, FinishedCheck(check=check, result=result, duration_s=2.0))

    assert table(made, title) == [row]
    assert {each.title for each in made.tables} == {title, "Not run"}


def test_facts_hold_each_check_for_programs() -> None:
    facts = outcome(FINE, BAD, LATE).facts

    assert isinstance(facts, DoctorFacts)
    disk, shm, late = facts.checks
    assert (disk.id, disk.status, disk.milliseconds, disk.figures) == (
        "machine/disk",
        "ok",
        12.5,
        {"free": 60},
    )
    assert (shm.status, shm.problems) == ("error", ("doctor/test",))
    assert (late.status, late.unknown, late.milliseconds) == ("unknown", "no answer", None)
    assert facts.not_run == {"git/one": "no checkout", "git/two": "no checkout"}


def test_an_unknown_check_is_a_skipped_case_and_an_error_is_an_error() -> None:
    cases = {each.name: each.outcome for each in outcome(FINE, BAD, LATE).cases}

    assert cases == {
        "machine/disk": CaseOutcome.PASSED,
        "machine/shm": CaseOutcome.ERROR,
        "gpu/one": CaseOutcome.SKIPPED,
    }


def test_a_test_case_says_what_is_wrong_the_worst_first() -> None:
    note = problem(RULE, "by the way", severity=Severity.NOTE)
    lesser = problem(RULE, "/tmp is slow", severity=Severity.WARNING)
    result = CheckResult(
        summary="2 disks",
        problems=(note, lesser, problem(RULE, "/ is full")),
        unknown="no /sys",
    )

    (full, late, fine) = outcome(ended_of_outcome("machine/disks", result), LATE, FINE).cases

    assert full.message == "/ is full; /tmp is slow"
    assert late.message == "no answer"
    assert fine.message is None


@pytest.mark.parametrize(
    ("areas", "verdict"),
    [
        pytest.param((), Verdict.PASS, id="of-the-machine"),
        pytest.param(("gpu",), Verdict.VOID, id="of-what-is-missing"),
        pytest.param(("machine",), Verdict.PASS, id="of-what-is-there"),
    ],
)
def test_an_area_that_was_asked_for_and_is_missing_is_no_pass(
    areas: tuple[str, ...], verdict: Verdict
) -> None:
    devices = ended_of_outcome("gpu/devices", CheckResult(summary="no GPU"))
    run = DoctorRun(
        finished=(FINE, devices), not_run={named("gpu/driver"): "no GPU", named("gpu/mig"): "no GPU", named("machine/x"): "no"}, areas=areas, workload=None, strict=False
    )  # fmt: skip

    assert outcome_of(run).verdict is verdict
