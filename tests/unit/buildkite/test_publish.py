# SPDX-License-Identifier: Apache-2.0
"""What a job becomes on its build: an annotation, meta-data, artifacts."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.buildkite import publish as report_files
from ci_doctor.buildkite.agent import Agent, AgentResult
from ci_doctor.buildkite.job import JobEnd, JobEnvironment, worst_verdict
from ci_doctor.buildkite.publish import (
    Annotation,
    PublishedJob,
    ShowStep,
    files_of,
    publish,
)
from ci_doctor.model.facts.build import EarlierAttempt
from ci_doctor.model.outcome import Report, Verdict
from tests.support import stand_in_agent
from tests.support.builders import a_report
from tests.support.cases import cases

JOB = JobEnvironment(job_id="0190-j1", step_key="e2e", parallel_job=1)
RETRY = JobEnvironment(job_id="0190-j2", step_key="e2e", parallel_job=1, retry_count=1)
CONTEXT = "ci-doctor:step:e2e:1"
RED = "✗ failed"
GREEN = "✓ passed"


def saying(body: str, job: JobEnvironment = JOB, *, page: bool = False) -> ShowStep:
    """A job that says `body`, behind what it knows of its earlier attempts."""

    def show(earlier: tuple[EarlierAttempt, ...]) -> Annotation:
        known = "".join(f"{each.attempt}={each.cause} " for each in earlier)
        return Annotation(
            body=f"{known}{body} [page]" if page else known + body,
            style="success" if body == GREEN else "error",
            said=EarlierAttempt(
                attempt=job.retry_count, verdict="failed", cause=body, job=job.job_id
            ),
            without_page=known + body if page else None,
        )

    return show


class Build:
    """A report root and a stand-in agent that records."""

    def __init__(
        self, folder: Path, *, failing: str | None = None, version: str = "3.110.0"
    ) -> None:
        self.root = folder / "ci-doctor-report" / "0190-j1"
        self.log = folder / "agent.jsonl"
        self.folder_of_agent = folder / "bin"
        self.install(failing=failing, version=version)

    def install(self, *, failing: str | None = None, version: str = "3.110.0") -> None:
        executable = stand_in_agent.install(
            self.folder_of_agent, self.log, failing=failing, version=version
        )
        self.agent = Agent(str(executable), os.environ)

    def folder(self, name: str = "correctness", **files: str) -> Path:
        directory = self.root / name
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in {"report_json": "{}", "report_md": "# r", **files}.items():
            (directory / file.replace("_", ".")).write_text(text)
        return directory

    def publish(
        self,
        *reports: tuple[Path, Report],
        job: JobEnvironment = JOB,
        show: ShowStep | None = None,
        end: JobEnd | None = None,
        record: Path | None = None,
    ) -> tuple[AgentResult, ...]:
        published = replace(PublishedJob.of(reports, end), record=record)
        return publish(published, job, self.agent, show)

    def say(self, body: str, job: JobEnvironment = JOB) -> tuple[AgentResult, ...]:
        return self.publish((self.folder(), a_report()), job=job, show=saying(body, job))

    def calls(self, command: str) -> list[dict[str, Any]]:
        return [call for call in stand_in_agent.calls(self.log) if command in call["argv"][:2]]  # type: ignore[index]

    def page(self) -> dict[str, str]:
        """The text of each annotation on the page."""
        return {
            context: body for context, (_, body) in stand_in_agent.annotations(self.log).items()
        }

    def metadata(self) -> dict[str, str]:
        return stand_in_agent.metadata(self.log)


def test_a_job_with_several_reports_has_one_annotation(tmp_path: Path) -> None:
    build = Build(tmp_path)
    reports = [(build.folder(name), a_report()) for name in ("setup-env", "correctness")]

    results = build.publish(*reports, show=saying(RED))

    assert all(result.ok for result in results)
    (annotation,) = build.calls("annotate")
    assert annotation["flags"] == {"--context": CONTEXT, "--style": "error", "--priority": "6"}
    assert annotation["body"] == RED


def test_what_people_read_comes_before_the_artifacts(tmp_path: Path) -> None:
    build = Build(tmp_path)

    build.publish((build.folder(), a_report()), show=saying(RED))

    calls = [" ".join(call["argv"][:2]) for call in stand_in_agent.calls(build.log)]  # type: ignore[index]
    commands = [call.split(" --")[0] for call in calls]
    before = ["meta-data get", "meta-data set", "annotate", "meta-data set"]
    assert commands == [*before, "artifact upload"]


def test_a_job_without_anything_to_say_asks_the_agent_for_nothing(tmp_path: Path) -> None:
    build = Build(tmp_path)

    assert build.publish(show=lambda earlier: None) == ()
    assert stand_in_agent.calls(build.log) == []


def test_a_failed_job_that_could_write_no_file_has_a_verdict(tmp_path: Path) -> None:
    build = Build(tmp_path)

    build.publish(show=saying(RED), end=JobEnd(has_run=True, failures=(3,)))

    assert build.page() == {CONTEXT: RED}
    assert build.metadata()["ci-doctor:e2e:1:verdict"] == "failed"


def test_the_record_of_a_silent_job_is_uploaded(tmp_path: Path) -> None:
    build = Build(tmp_path)
    build.root.mkdir(parents=True)
    record = build.root / "job.json"
    record.write_text("{}")

    build.publish(show=lambda earlier: None, record=record, end=JobEnd(has_run=True))

    (upload,) = build.calls("upload")
    assert upload["files"] == ["0190-j1/job.json"]
    assert build.page() == {}


def test_annotations_can_be_switched_off(tmp_path: Path) -> None:
    build = Build(tmp_path)

    build.publish((build.folder(), a_report()))

    calls = stand_in_agent.calls(build.log)
    assert [call["argv"][0] for call in calls] == ["meta-data", "artifact"]  # type: ignore[index]


def test_the_worst_verdict_becomes_meta_data(tmp_path: Path) -> None:
    build = Build(tmp_path)
    reports = [(build.folder("a"), a_report()), (build.folder("b"), a_report(Verdict.FLAKY))]

    build.publish(*reports)

    assert build.metadata()["ci-doctor:e2e:1:verdict"] == "flaky"


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


def test_a_failing_annotation_holds_up_nothing_else(tmp_path: Path) -> None:
    build = Build(tmp_path, failing="annotate")

    results = build.publish((build.folder(), a_report()), show=saying(RED))

    assert [result.ok for result in results] == [False, True, True]
    assert "500 Internal Server Error" in results[0].message
    assert len(build.calls("upload")) == 1
    assert build.metadata()["ci-doctor:e2e:1:verdict"] == "pass"


def test_an_upload_that_fails_takes_the_link_back(tmp_path: Path) -> None:
    build = Build(tmp_path, failing="artifact")

    build.publish((build.folder(), a_report()), show=saying(RED, page=True))

    bodies = [call["body"] for call in build.calls("annotate")]
    assert bodies == [f"{RED} [page]", RED]


def test_an_agent_of_long_ago_annotates_too(tmp_path: Path) -> None:
    build = Build(tmp_path, version="3.20.0")

    build.publish((build.folder(), a_report()), show=saying(RED))

    (annotation,) = build.calls("annotate")
    assert annotation["flags"] == {"--context": CONTEXT, "--style": "error"}


def test_after_the_budget_the_agent_is_not_called(tmp_path: Path) -> None:
    build = Build(tmp_path)
    agent = Agent(str(build.folder_of_agent / "buildkite-agent"), os.environ, budget_s=0.0)
    reports = ((build.folder(), a_report()),)

    results = publish(PublishedJob.of(reports), JOB, agent, saying(RED))

    assert {result.ok for result in results} == {False}
    assert all("the time for publishing is over" in result.message for result in results)
    assert stand_in_agent.calls(build.log) == []


def test_a_report_directory_that_is_gone_is_no_error(tmp_path: Path) -> None:
    results = Build(tmp_path).publish((tmp_path / "gone", a_report()))

    assert [result.ok for result in results] == [True]


class TestTheNextAttempt:
    """Whatever an earlier attempt of a job said on the build's page is true no more."""

    def test_replaces_its_own_annotation_and_knows_what_it_said(self, tmp_path: Path) -> None:
        build = Build(tmp_path)
        build.say("disk full")

        results = build.say(GREEN, RETRY)

        assert all(result.ok for result in results)
        assert build.page() == {CONTEXT: f"0=disk full {GREEN}"}
        priorities = [call["flags"]["--priority"] for call in build.calls("annotate")]
        assert priorities == ["6", "3"]

    @cases(
        ("said", "page"),
        {
            "all attempts before it": (
                [("a", JOB), ("b", RETRY), (GREEN, replace(RETRY, job_id="j3", retry_count=2))],
                f"0=a 1=b {GREEN}",
            ),
            "with another command": (
                [("a", JOB), (GREEN, replace(RETRY, command="true"))],
                f"0=a {GREEN}",
            ),
            "that publishes twice": ([("a", JOB), ("b", RETRY), ("c", RETRY)], "0=a c"),
        },
    )
    def test_knows_the_ones_before_it(
        self, said: list[tuple[str, JobEnvironment]], page: str, tmp_path: Path
    ) -> None:
        build = Build(tmp_path)
        for body, job in said:
            build.say(body, job)

        assert build.page() == {CONTEXT: page}

    def test_that_shows_nothing_removes_what_was_published(self, tmp_path: Path) -> None:
        build = Build(tmp_path)
        build.say(RED)

        build.publish(job=RETRY, end=JobEnd(has_run=True))

        assert build.page() == {}
        # The command ended with 0, and nothing was proven.
        assert build.metadata()["ci-doctor:e2e:1:verdict"] == "void"

    def test_an_agent_that_cannot_remove_an_annotation_takes_its_colour_away(
        self, tmp_path: Path
    ) -> None:
        build = Build(tmp_path, version="3.20.0")
        build.say(RED)

        build.publish(job=RETRY, end=JobEnd(has_run=True))

        assert {style for style, _ in stand_in_agent.annotations(build.log).values()} == {"info"}

    def test_leaves_the_annotations_of_its_siblings(self, tmp_path: Path) -> None:
        build = Build(tmp_path)
        build.say("a")
        build.say("b", replace(JOB, job_id="0190-b", parallel_job=2))
        build.say("c", replace(JOB, job_id="0190-c", label="test c"))
        # Of a matrix without its values in the labels.
        build.say("d", replace(JOB, job_id="0190-d", command="test d"))
        build.say("e", replace(JOB, job_id="0190-e", command="test d"))
        assert sorted(build.page().values()) == ["a", "b", "c", "d", "e"]

        build.say(GREEN, replace(RETRY, command=None))

        assert sorted(build.page().values()) == [f"0=a {GREEN}", "b", "c", "d", "e"]

    def test_an_attempt_that_was_given_up_does_not_take_back_what_the_next_one_says(
        self, tmp_path: Path
    ) -> None:
        build = Build(tmp_path)
        build.say(GREEN, RETRY)

        results = build.say(RED)

        assert [result.ok for result in results] == [False, True]
        assert build.page() == {CONTEXT: GREEN}
        assert len(build.calls("upload")) == 2

    @pytest.mark.parametrize("value", ["nonsense", "[1]", '{"c": "x"}'])
    def test_what_is_no_history_says_nothing_of_an_earlier_attempt(
        self, value: str, tmp_path: Path
    ) -> None:
        build = Build(tmp_path)
        build.agent.set_metadata(JOB.annotations_key(), value)

        results = build.say(GREEN, RETRY)

        assert build.page() == {CONTEXT: f"0=None {GREEN}"}
        assert not all(result.ok for result in results)

    def test_says_so_if_the_agent_cannot_tell_what_was_published(self, tmp_path: Path) -> None:
        build = Build(tmp_path, failing="meta-data")

        results = build.say(GREEN, RETRY)

        assert any("meta-data get" in result.message for result in results if not result.ok)
        assert build.page() == {CONTEXT: f"0=None {GREEN}"}


class TestTheJobsOfAMatrixWithOneLabel:
    """One step, one label, several jobs: each has a red box, and its own retry takes it back."""

    def run(self, folder: Path, *jobs: JobEnvironment, order: str) -> list[str]:
        """The boxes that are left, of jobs that fail and whose retries pass; `order`: `0` fails, `0'` passes."""
        build = Build(folder)
        for word in order.split():
            number = int(word[0])
            attempt = len(word) - 1
            job = replace(jobs[number], job_id=f"0190-{word}", retry_count=attempt)
            if attempt == 0:
                build.say(f"{RED} {number}", job)
            else:
                build.publish(job=job, end=JobEnd(has_run=True))
        return sorted(build.page().values())

    @cases(
        "jobs",
        {
            "commands differ": [
                replace(JOB, command="serve h200"),
                replace(JOB, command="serve a100"),
            ],
            "the rest differs": [replace(JOB, work="x"), replace(JOB, work="y")],
        },
    )
    @pytest.mark.gate(1)
    def test_each_retry_takes_its_own_back_and_no_other(
        self, jobs: list[JobEnvironment], tmp_path: Path
    ) -> None:
        for number, (order, left) in enumerate(
            [
                ("0 1 1'", [f"{RED} 0"]),
                ("0 0' 1", [f"{RED} 1"]),
                ("1 0 1' 0'", []),
            ]
        ):
            folder = tmp_path / str(number)
            assert self.run(folder, *jobs, order=order) == left, order

    def test_that_nothing_tells_apart_keep_a_box_for_each_that_was_not_retried(
        self, tmp_path: Path
    ) -> None:
        boxes = self.run(tmp_path, JOB, JOB, JOB, order="0 1 2 1'")
        assert {f"{RED} 0", f"{RED} 2"} <= set(boxes)


def test_an_agent_that_hangs_is_killed_and_takes_no_more_than_the_budget(tmp_path: Path) -> None:
    folder = Build(tmp_path).folder()
    hanging = tmp_path / "hanging"
    hanging.write_text(f'#!/bin/sh\necho $$ >> "{tmp_path}/pids"\nexec sleep 600\n')
    hanging.chmod(0o755)
    agent = Agent(str(hanging), os.environ, budget_s=0.4)

    results = publish(PublishedJob.of(((folder, a_report()),)), JOB, agent, saying(RED))

    assert {result.ok for result in results} == {False}
    assert "did not end within" in results[0].message or "time for publishing" in results[0].message
    pids = [int(line) for line in (tmp_path / "pids").read_text().splitlines()]
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def names(directory: Path) -> list[str]:
    return [str(path.relative_to(directory)) for path in files_of(directory, JOB)[0]]


def test_the_report_comes_first_and_the_junit_files_have_the_jobs_name(tmp_path: Path) -> None:
    directory = Build(tmp_path).folder(
        junit_xml="<testsuites/>", attempts_xml="<all/>", candidate_log="boom", report_html="page"
    )
    (directory / "samples").mkdir()
    (directory / "samples" / "odd [1];x.jsonl").write_text("{}")
    (directory / ".report.json.half").write_text("half")
    (directory / "link").symlink_to("/etc/passwd")

    expected = [
        *("report.html", "report.json", "report.md", "attempts-0190-j1.xml", "candidate.log"),
        *("junit-0190-j1.xml", "samples/odd [1];x.jsonl"),
    ]
    assert names(directory) == expected
    assert (directory / "junit-0190-j1.xml").read_text() == "<testsuites/>"
    assert (directory / "attempts-0190-j1.xml").read_text() == "<all/>"
    # A second time gives the same files.
    assert names(directory) == expected


def test_a_directory_that_cannot_take_the_copy_uploads_junit_xml_as_it_is(tmp_path: Path) -> None:
    directory = Build(tmp_path).folder(junit_xml="<testsuites/>")
    (directory / "junit-0190-j1.xml").mkdir()  # stops root too, whom no mode bits stop

    assert "junit.xml" in names(directory)
    (problem,) = files_of(directory, JOB)[1]
    assert problem.startswith("junit.xml keeps its name: ")


def test_what_is_too_much_or_too_large_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_files, "FILES_PER_REPORT", 3)
    monkeypatch.setattr(report_files, "BYTES_PER_FILE", 1000)
    directory = Build(tmp_path).folder(a_log="1", b_log="2", huge_log="x" * 1001)

    assert names(directory) == ["report.json", "report.md", "a.log"]
    (problem,) = files_of(directory, JOB)[1]
    assert "huge.log, b.log" in problem


def test_large_logs_wait_for_the_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_files, "_SMALL_BYTES", 1000)
    build = Build(tmp_path)

    build.publish((build.folder(a_log="x" * 1001), a_report()))

    assert [[Path(name).name for name in call["files"]] for call in build.calls("upload")] == [
        ["report.json", "report.md"],
        ["a.log"],
    ]


def test_an_old_agent_gets_all_files_but_those_that_it_would_take_for_patterns(
    tmp_path: Path,
) -> None:
    build = Build(tmp_path, version="3.20.0")
    files, _ = files_of(build.folder(**{"test_a[b]_log": "x"}), JOB)

    result = build.agent.upload_artifacts(files, build.root.parent)

    (call,) = build.calls("upload")
    assert call["files"] == ["0190-j1/correctness/report.json", "0190-j1/correctness/report.md"]
    assert "test.a[b].log" in result.message
