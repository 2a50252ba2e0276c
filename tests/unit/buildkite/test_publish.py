# SPDX-License-Identifier: Apache-2.0
"""What the reports of a job become on its build."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.buildkite import publish as publishing
from ci_doctor.buildkite.agent import Agent, AgentResult
from ci_doctor.buildkite.annotations import Annotation
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.job_end import JobEnd, worst_verdict
from ci_doctor.buildkite.publish import publish
from ci_doctor.model.outcome import Failure
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import EXIT_CODES, Verdict
from tests.support import stand_in_agent

JOB = JobEnvironment(job_id="0190-j1", step_key="e2e", parallel_job=1)


def a_report(verdict: Verdict | None = Verdict.PASS, command: str = "correctness") -> Report:
    return Report(
        tool_version="1",
        command=command,
        argv=(),
        started_at="2026-11-21T00:00:00.000Z",
        duration_s=1.0,
        verdict=verdict,
        error=None if verdict else Failure(message="no"),
        exit_code=EXIT_CODES[verdict] if verdict else 2,
        summary=f"{command} said {verdict}",
    )


def page(report: Report, artifacts: str) -> Annotation:
    style = "success" if report.verdict is Verdict.PASS else "error"
    return Annotation(body=f"# {report.summary} ({artifacts})", style=style)


class Build:
    """A report root and a stand-in agent that records."""

    def __init__(
        self, folder: Path, *, failing: str | None = None, version: str = "3.110.0"
    ) -> None:
        self.root = folder / "ci-doctor-report" / "0190-j1"
        self.log = folder / "agent.jsonl"
        executable = stand_in_agent.install(
            folder / "bin", self.log, failing=failing, version=version
        )
        self.agent = Agent(str(executable), os.environ)

    def folder(self, name: str, **files: str) -> Path:
        directory = self.root / name
        directory.mkdir(parents=True)
        for file, text in {"report_json": "{}", "report_md": "# r", **files}.items():
            (directory / file.replace("_", ".")).write_text(text)
        return directory

    def publish(
        self,
        *reports: tuple[Path, Report],
        annotate: bool = True,
        job: JobEnvironment = JOB,
        end: JobEnd | None = None,
    ) -> tuple[AgentResult, ...]:
        return publish(reports, job, self.agent, page if annotate else None, end=end)

    def calls(self, command: str) -> list[dict[str, Any]]:
        return [call for call in stand_in_agent.calls(self.log) if command in call["argv"][:2]]  # type: ignore[index]


def test_each_report_becomes_an_annotation_in_a_context_of_its_own(tmp_path: Path) -> None:
    build = Build(tmp_path)
    first, second = build.folder("correctness"), build.folder("correctness-2")
    setup = build.folder("setup-env")

    results = build.publish(
        (first, a_report()),
        (second, a_report(Verdict.REGRESSION)),
        (setup, a_report(command="setup-env")),
    )

    assert all(result.ok for result in results)
    assert [
        (call["flags"]["--context"], call["flags"]["--style"], call["body"])
        for call in build.calls("annotate")
    ] == [
        ("ci-doctor:e2e:1:correctness", "success", "# correctness said pass (0190-j1/correctness)"),
        (
            "ci-doctor:e2e:1:correctness-2",
            "error",
            "# correctness said regression (0190-j1/correctness-2)",
        ),
        ("ci-doctor:e2e:1:setup-env", "success", "# setup-env said pass (0190-j1/setup-env)"),
    ]


def test_the_files_of_a_report_are_uploaded_with_the_junit_file_under_the_jobs_name(
    tmp_path: Path,
) -> None:
    build = Build(tmp_path)
    directory = build.folder("correctness", junit_xml="<testsuites/>", candidate_log="boom")
    (directory / "samples").mkdir()
    (directory / "samples" / "odd [1];x.jsonl").write_text("{}")
    (directory / ".report.json.half").write_text("half")
    (directory / "link").symlink_to("/etc/passwd")

    results = build.publish((directory, a_report()))

    assert all(result.ok for result in results)
    (upload,) = build.calls("upload")
    assert upload["files"] == [
        "0190-j1/correctness/report.json",
        "0190-j1/correctness/report.md",
        "0190-j1/correctness/candidate.log",
        "0190-j1/correctness/junit-0190-j1.xml",
        "0190-j1/correctness/samples/odd [1];x.jsonl",
    ]
    assert (directory / "junit-0190-j1.xml").read_text() == "<testsuites/>"


def test_publishing_twice_uploads_the_same_files(tmp_path: Path) -> None:
    build = Build(tmp_path)
    directory = build.folder("correctness", junit_xml="<testsuites/>")

    build.publish((directory, a_report()))
    build.publish((directory, a_report()))

    first, second = build.calls("upload")
    assert first["files"] == second["files"]


def test_an_old_agent_gets_all_files_but_those_that_it_would_take_for_patterns(
    tmp_path: Path,
) -> None:
    build = Build(tmp_path, version="3.20.0")
    directory = build.folder("correctness")
    (directory / "test_a[b].log").write_text("x")

    results = build.publish((directory, a_report()))

    (upload,) = build.calls("upload")
    assert upload["files"] == ["0190-j1/correctness/report.json", "0190-j1/correctness/report.md"]
    assert any("test_a[b].log" in result.message for result in results)


def test_what_is_too_much_or_too_large_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "FILES_PER_REPORT", 3)
    monkeypatch.setattr(publishing, "BYTES_PER_FILE", 1000)
    build = Build(tmp_path)
    directory = build.folder("correctness", a_log="1", b_log="2", huge_log="x" * 1001)

    results = build.publish((directory, a_report()))

    (upload,) = build.calls("upload")
    assert [Path(name).name for name in upload["files"]] == ["report.json", "report.md", "a.log"]
    (left_out,) = [result for result in results if not result.ok]
    assert "huge.log, b.log" in left_out.message


def test_the_worst_verdict_becomes_meta_data(tmp_path: Path) -> None:
    build = Build(tmp_path)
    one, two = build.folder("setup-env"), build.folder("correctness")

    build.publish((one, a_report(command="setup-env")), (two, a_report(Verdict.FLAKY)))

    assert stand_in_agent.metadata(build.log)["ci-doctor:e2e:1:verdict"] == "flaky"


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ([Verdict.PASS], "pass"),
        ([Verdict.PASS, Verdict.FLAKY, Verdict.INFRA], "infra"),
        ([Verdict.PASS, None], "error"),
        ([None, Verdict.REGRESSION], "regression"),
        ([Verdict.NONDETERMINISTIC, Verdict.VOID], "void"),
    ],
)
def test_the_worst_verdict_is_the_one_to_hear_first(
    verdicts: list[Verdict | None], worst: str
) -> None:
    assert worst_verdict([a_report(verdict) for verdict in verdicts]) == worst


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_its_place(verdict: Verdict) -> None:
    assert worst_verdict([a_report(verdict)]) == verdict


def test_nothing_is_published_without_a_report(tmp_path: Path) -> None:
    build = Build(tmp_path)

    assert build.publish() == ()
    assert stand_in_agent.calls(build.log) == []


def test_annotations_can_be_switched_off(tmp_path: Path) -> None:
    build = Build(tmp_path)

    build.publish((build.folder("correctness"), a_report()), annotate=False)

    calls = stand_in_agent.calls(build.log)
    assert [call["argv"][0] for call in calls] == ["artifact", "meta-data"]  # type: ignore[index]


def test_a_failing_annotation_holds_up_nothing_else(tmp_path: Path) -> None:
    build = Build(tmp_path, failing="annotate")

    results = build.publish((build.folder("correctness"), a_report()))

    assert [result.ok for result in results] == [False, True, True]
    assert "500 Internal Server Error" in results[0].message
    assert len(build.calls("upload")) == 1
    assert "ci-doctor:e2e:1:verdict" in stand_in_agent.metadata(build.log)


def test_a_directory_that_cannot_take_the_copy_uploads_junit_xml_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    build = Build(tmp_path)
    directory = build.folder("correctness", junit_xml="<testsuites/>")
    (directory / "junit-0190-j1.xml").mkdir()  # stops root too, whom no mode bits stop

    results = build.publish((directory.relative_to(tmp_path), a_report()))

    (upload,) = build.calls("upload")
    assert "0190-j1/correctness/junit.xml" in upload["files"]
    assert [result.ok for result in results] == [True, False, True, True]


def test_a_report_directory_that_is_gone_is_no_error(tmp_path: Path) -> None:
    results = Build(tmp_path).publish((tmp_path / "gone", a_report()))

    assert [result.ok for result in results] == [True, True]


class TestTheNextAttempt:
    """Whatever an earlier attempt of a job said on the build's page is true no more."""

    RETRY = JobEnvironment(job_id="0190-j2", step_key="e2e", parallel_job=1, retry_count=1)

    def shown(self, build: Build) -> dict[str, str]:
        """The style of each annotation on the page, by the end of its context."""
        page = stand_in_agent.annotations(build.log)
        return {
            context.removeprefix("ci-doctor:e2e:1:"): style for context, (style, _) in page.items()
        }

    def test_replaces_its_own_annotations_and_removes_the_others(self, tmp_path: Path) -> None:
        build = Build(tmp_path)
        folder = build.folder("correctness")
        red = a_report(Verdict.REGRESSION)
        build.publish((folder, red), (folder, red), (folder, a_report(None, "launch")))
        assert self.shown(build) == dict.fromkeys(
            ("correctness", "correctness-2", "launch"), "error"
        )

        results = build.publish((folder, a_report()), job=self.RETRY)

        assert all(result.ok for result in results)
        assert self.shown(build) == {"correctness": "success"}

    def test_without_a_report_takes_back_what_was_published(self, tmp_path: Path) -> None:
        build = Build(tmp_path)
        build.publish((build.folder("correctness"), a_report(Verdict.REGRESSION)))

        build.publish(job=self.RETRY, end=JobEnd(has_run=True))

        assert self.shown(build) == {}
        # The command ended with 0, and nothing was proven.
        assert stand_in_agent.metadata(build.log)["ci-doctor:e2e:1:verdict"] == "void"

    def test_leaves_the_annotations_of_its_siblings(self, tmp_path: Path) -> None:
        build = Build(tmp_path)
        folder = build.folder("correctness")
        sibling = replace(JOB, job_id="0190-j3", parallel_job=2)
        matrix = replace(JOB, job_id="0190-j4", command="test b")
        labelled = replace(JOB, job_id="0190-j5", label="test c")
        for job in (JOB, sibling, matrix, labelled):
            build.publish((folder, a_report(Verdict.REGRESSION, f"command-{job.job_id}")), job=job)

        build.publish(job=self.RETRY, end=JobEnd(has_run=True))

        page = stand_in_agent.annotations(build.log)
        assert [context.split(":")[3] for context in page] == [
            "command-0190-j3",
            "command-0190-j4",
            "command-0190-j5",
        ]

    def test_with_another_command_is_still_the_next_one(self, tmp_path: Path) -> None:
        build = Build(tmp_path)
        build.publish((build.folder("correctness"), a_report(Verdict.REGRESSION)))

        build.publish(job=replace(self.RETRY, command="true"), end=JobEnd(has_run=True))

        assert self.shown(build) == {}

    def test_a_job_that_publishes_twice_keeps_both(self, tmp_path: Path) -> None:
        build = Build(tmp_path)
        folder = build.folder("correctness")

        build.publish((folder, a_report()), job=self.RETRY)
        build.publish((folder, a_report(command="launch")), job=self.RETRY)

        assert self.shown(build) == {"correctness": "success", "launch": "success"}

    def test_an_attempt_that_was_given_up_does_not_take_back_what_the_next_one_says(
        self, tmp_path: Path
    ) -> None:
        build = Build(tmp_path)
        folder = build.folder("correctness")
        build.publish((folder, a_report()), job=self.RETRY)

        results = build.publish((folder, a_report(Verdict.REGRESSION)), job=JOB)

        assert [result.ok for result in results] == [True, False]
        assert self.shown(build) == {"correctness": "success"}
        assert stand_in_agent.metadata(build.log)["ci-doctor:e2e:1:verdict"] == "pass"

    def test_an_agent_that_cannot_remove_an_annotation_takes_its_colour_away(
        self, tmp_path: Path
    ) -> None:
        build = Build(tmp_path, version="3.20.0")
        folder = build.folder("correctness")
        build.publish((folder, a_report(Verdict.REGRESSION, "launch")))

        build.publish((folder, a_report()), job=self.RETRY)

        assert self.shown(build) == {"launch": "info", "correctness": "success"}

    @pytest.mark.parametrize("value", ["nonsense", "[1]", '{"c": "x"}'])
    def test_what_is_no_list_of_contexts_is_none(self, value: str, tmp_path: Path) -> None:
        build = Build(tmp_path)
        build.agent.set_metadata(JOB.annotations_key(), value)

        build.publish((build.folder("correctness"), a_report()), job=self.RETRY)

        assert self.shown(build) == {"correctness": "success"}

    def test_says_so_if_the_agent_cannot_tell_what_was_published(self, tmp_path: Path) -> None:
        build = Build(tmp_path, failing="meta-data")

        results = build.publish((build.folder("correctness"), a_report()), job=self.RETRY)

        assert any("meta-data get" in result.message for result in results if not result.ok)
        assert self.shown(build) == {"correctness": "success"}
