import pytest
from msgspec.structs import replace

from ci_doctor.history.evidence import AttemptOutcome
from ci_doctor.history.own_report import evidence_of, read_record
from ci_doctor.model.about import About
from ci_doctor.model.outcome import Case, CaseOutcome
from ci_doctor.model.verdict import Verdict
from tests.support.builders import a_report


def test_cases_of_one_name_are_attempts_in_their_order() -> None:
    case = Case(name="n", group="g", outcome=CaseOutcome.FAILED)
    again = replace(case, outcome=CaseOutcome.PASSED)

    attempts = evidence_of(a_report(Verdict.FAILED, cases=(case, again))).attempts

    assert [(each.number, each.outcome) for each in attempts] == [
        (1, AttemptOutcome.FAILED),
        (2, AttemptOutcome.PASSED),
    ]


def test_a_build_with_a_number_that_no_database_holds_is_unknown() -> None:
    report = a_report(Verdict.PASS, about=About(job="7", build=2**63))

    assert evidence_of(report).job.build is None


@pytest.mark.parametrize(("index", "label"), [(None, "cuda 12"), (3, None)])
def test_a_record_has_the_label_of_its_step_unless_it_is_a_parallel_job(
    index: int | None, label: str | None
) -> None:
    record = {
        "schema": "ci-doctor/job/1",
        "tool_version": "1",
        "about": {"job": "7", "step": "unit"}
        | ({} if index is None else {"parallel_index": index}),
        "label": "cuda 12",
        "verdict": "pass",
        "summary": "s",
    }

    assert read_record(record).job.label == label
