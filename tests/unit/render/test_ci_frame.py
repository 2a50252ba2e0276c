# SPDX-License-Identifier: Apache-2.0
"""What of a report stands open in a log, what closed, and what GitHub shows beside the change."""

import pytest
from msgspec.structs import replace

from ci_doctor.model.outcome import Evidence, Report, Severity, Verdict
from ci_doctor.render.ci_frame import Frame, frame, is_failing, is_of_interest
from ci_doctor.render.ci_log import Dialect
from tests.support.builders import a_finding, a_report
from tests.support.ci_log_readers import buildkite_headers, github_commands, gitlab_sections

NOTHING_JUDGED = a_report(None, error=None, exit_code=0, summary="12 rules")
FAILED = a_report(Verdict.FAILED, summary="vllm died")


def framed(report: Report, dialect: Dialect) -> Frame:
    return frame(report, dialect, key="7_1", token="t0k3n", epoch_s=1.0)


def log_of(report: Report, dialect: Dialect, text: str = "the text\n") -> str:
    around = framed(report, dialect)
    return around.before + text + around.after + around.notes


@pytest.mark.parametrize(
    ("report", "header"),
    [
        (a_report(), ("---", "✓ PASS  ci-doctor correctness")),
        (a_report(Verdict.FLAKY), ("---", "~ FLAKY  ci-doctor correctness")),
        (a_report(Verdict.FLAKY, exit_code=7), ("+++", "~ FLAKY  ci-doctor correctness")),
        (FAILED, ("+++", "✗ FAILED  ci-doctor correctness")),
        (a_report(None), ("+++", "✗ ERROR  ci-doctor correctness")),
        (a_report(Verdict.NONDETERMINISTIC), ("+++", "≠ NONDETERMINISTIC  ci-doctor correctness")),
        (a_report(Verdict.INFRA, exit_code=0), ("---", "! INFRA  ci-doctor correctness")),
        (a_report(Verdict.FAILED, command="run"), ("+++", "✗ FAILED  ci-doctor run")),
        # A diagnosis judges nothing, and is what a reader came for.
        (
            replace(NOTHING_JUDGED, command="diagnose", findings=(a_finding(),)),
            ("+++", "✗ ci-doctor diagnose"),
        ),
    ],
)
def test_what_fails_is_open_and_what_passes_is_closed(
    report: Report, header: tuple[str, str]
) -> None:
    assert buildkite_headers(log_of(report, Dialect.BUILDKITE)) == [header]
    assert is_failing(report) is (header[0] == "+++")


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("report", [NOTHING_JUDGED, a_report(command="run")])
def test_what_judges_nothing_and_what_becomes_a_command_has_no_group(
    report: Report, dialect: Dialect
) -> None:
    assert framed(report, dialect) == Frame()
    assert not is_of_interest(report)


def test_gitlab_expands_what_fails() -> None:
    assert [each[2] for each in gitlab_sections(log_of(FAILED, Dialect.GITLAB))] == ["", ""]
    passed = gitlab_sections(log_of(a_report(), Dialect.GITLAB))
    assert [each[:3] for each in passed] == [
        ("start", "ci_doctor_7_1", "[collapsed=true]"),
        ("end", "ci_doctor_7_1", ""),
    ]


def test_github_folds_what_passes_and_takes_no_command_from_it() -> None:
    commands = github_commands(log_of(a_report(), Dialect.GITHUB, "::error::forged\n"))

    assert [command.name for command in commands] == ["group", "stop-commands", "endgroup"]


def test_github_shows_each_error_with_its_place_and_its_remedy() -> None:
    finding = a_finding(
        evidence=(Evidence(excerpt="x"), Evidence(file="ci/serve.py", line=7)), remedy="pip check"
    )
    other = a_finding(Severity.WARNING, summary="not this one")
    report = replace(FAILED, findings=(finding, other))

    _, error = github_commands(log_of(report, Dialect.GITHUB))

    assert error.name == "error"
    assert error.properties == {
        "title": "✗ FAILED  ci-doctor correctness",
        "file": "ci/serve.py",
        "line": "7",
    }
    assert error.data == f"{finding.summary}\ntry: pip check"


def test_github_shows_the_summary_if_nothing_is_named() -> None:
    assert github_commands(framed(FAILED, Dialect.GITHUB).notes)[0].data == "vllm died"


def test_github_shows_the_error_that_ended_a_command_first() -> None:
    report = replace(a_report(None), findings=(a_finding(),))

    first, second = github_commands(framed(report, Dialect.GITHUB).notes)

    assert first.data.startswith("ci-doctor.toml:7: unknown key")
    assert second.data == "another module of that name comes first"


def test_github_warns_of_what_is_flaky_and_passes() -> None:
    (warning,) = github_commands(framed(a_report(Verdict.FLAKY), Dialect.GITHUB).notes)

    assert warning.name == "warning"
    assert not framed(a_report(), Dialect.GITHUB).notes


def test_github_shows_ten_errors_of_a_step_and_gets_no_more() -> None:
    findings = tuple(a_finding(summary=str(number)) for number in range(50))

    commands = github_commands(framed(replace(FAILED, findings=findings), Dialect.GITHUB).notes)

    assert [command.data for command in commands] == [str(number) for number in range(10)]


def test_a_megabyte_of_hostile_words_makes_short_lines() -> None:
    hostile = "::error::x\n##[add-mask]e\x1b[2J" * 50_000
    finding = a_finding(summary=hostile, remedy=hostile, evidence=(Evidence(file=hostile, line=1),))
    report = replace(FAILED, command=hostile, summary=hostile, findings=(finding,))

    notes = framed(report, Dialect.GITHUB).notes

    assert [command.name for command in github_commands(notes)] == ["error"]
    assert len(notes) < 5000
    assert len(buildkite_headers(log_of(report, Dialect.BUILDKITE, ""))) == 1
