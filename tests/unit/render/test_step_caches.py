"""The section on caches of a step's annotation."""

from msgspec.structs import replace

from ci_doctor.model.about import About
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.outcome import Report
from ci_doctor.model.table import Table, row, size
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.step_annotation import caches_section, is_about_caches, render, step_style
from ci_doctor.render.step_words import StepResult
from tests.support.annotated_page import AnnotatedPage, shown
from tests.support.builders import a_report

INERT = Finding(
    rule="cache/inert",
    severity=Severity.WARNING,
    summary="vllm: restored, but the library chose another directory: /x",
    evidence=(Evidence(excerpt="env.VLLM_USE_V1 1 -> 0"),),
)
TABLE = Table(title="Caches", columns=("effect", "sent"), rows=(row("vllm", "inert", size(5000)),))
CACHES = replace(
    a_report(),
    command="cache",
    verdict=None,
    summary="vllm inert; 5 kB fetched",
    tables=(TABLE,),
    findings=(INERT,),
)


def page(*reports: Report, status: int = 0, verdict: str = Verdict.VOID) -> AnnotatedPage:
    return shown(render(step(*reports, status=status, verdict=verdict)))


def step(*reports: Report, status: int = 0, verdict: str = Verdict.VOID) -> StepResult:
    record = JobRecord(
        tool_version="1",
        about=About(),
        command="bash ci/serving.sh",
        command_status=status,
        exit_status=status,
        verdict=verdict,
        summary="no report names a cause",
    )
    return StepResult(record=record, reports=reports)


def test_a_job_with_nothing_but_caches_passes_and_has_one_section() -> None:
    annotated = page(CACHES)

    assert step_style(step(CACHES)) == "success"
    assert "Passed" in annotated.unfolded
    assert annotated.unfolded.count("vllm inert; 5 kB fetched") == 1
    assert annotated.tags.count("table") == 1
    assert "env.VLLM_USE_V1 1 -> 0" in annotated.folded
    assert "Void" not in annotated.text


def test_a_job_that_failed_is_explained_by_other_reports_and_the_section_comes_last() -> None:
    annotated = page(CACHES, status=3, verdict=Verdict.FAILED)

    assert "Finding:" not in annotated.text
    assert annotated.unfolded.rstrip().endswith("Caches: vllm inert; 5 kB fetched")


def test_a_report_that_judges_is_no_part_of_the_section() -> None:
    refused = replace(CACHES, verdict=Verdict.FAILED, summary="vllm was refused")

    assert not is_about_caches(refused)
    assert caches_section([refused, a_report()]) == ""
    assert "Finding: vllm" in page(refused, status=1, verdict=Verdict.FAILED).unfolded


def test_whoever_calls_the_commands_by_hand_gets_one_section_too() -> None:
    annotated = page(*(replace(CACHES, summary=f"part {number}") for number in range(3)))

    assert "Caches: part 0; part 1; part 2" in annotated.unfolded
    assert annotated.tags.count("details") == 1


def test_a_section_of_any_size_fits() -> None:
    rows = tuple(row("x" * 500, "y" * 500, size(1)) for _ in range(200))
    long = replace(CACHES, tables=(replace(TABLE, rows=rows),), findings=(INERT,) * 500)

    section = caches_section([long])

    assert len(section.encode()) < 12_000
    assert "more: see the report" in shown(section).folded
