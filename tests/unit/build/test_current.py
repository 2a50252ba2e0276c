# SPDX-License-Identifier: Apache-2.0
"""The downloads of a build's files through a stand-in agent that keeps artifacts per job."""

import os
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.build.current import download_current, is_own_api_job, is_own_record
from ci_doctor.build.job_attempt import ApiJob
from ci_doctor.buildkite.artifacts import DownloadLimits
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.model.facts.build import JobRecord
from tests.support import stand_in_agent
from tests.support.builds import a_job, a_red_build, a_report_of, job_id, write_build, write_job

OWN = job_id("publish")


class MadeUpBuild:
    def __init__(
        self, tmp_path: Path, *, version: str = "3.110.0", failing: str | None = None
    ) -> None:
        self.root = tmp_path
        self.log = tmp_path / "log"
        self.into = tmp_path / "into"
        stand_in_agent.install(tmp_path / "bin", self.log, version=version, failing=failing)

    def put(self, *jobs: JobRecord, retried: frozenset[str] = frozenset()) -> None:
        files = write_build(self.root / "uploaded", jobs, "correctness")
        stand_in_agent.put_build(self.log, files, retried=retried)

    def put_file(self, job: str, path: str, content: bytes = b"{}") -> None:
        stand_in_agent.put_artifact(self.log, job, path, content)

    def download(self, **limits: float) -> tuple[str, ...]:
        """What could not be had."""
        environ = {
            **os.environ,
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "BUILDKITE": "true",
            "BUILDKITE_JOB_ID": OWN,
            "BUILDKITE_STEP_KEY": "publish",
        }
        self.into.mkdir()
        return download_current(environ, self.into, limits=DownloadLimits(**limits))  # type: ignore[arg-type]

    def names(self, pattern: str = "*.json") -> list[str]:
        return sorted(str(path.relative_to(self.into)) for path in self.into.rglob(pattern))

    def calls(self, *words: str) -> list[dict[str, object]]:
        calls = stand_in_agent.calls(self.log)
        return [call for call in calls if call["argv"][: len(words)] == list(words)]  # type: ignore[index]


def test_one_path_of_several_jobs_is_kept_apart(tmp_path: Path) -> None:
    build = MadeUpBuild(tmp_path)
    for key in ("a", "b"):
        folder = write_job(tmp_path / key, a_job(key), [a_report_of(a_job(key))])
        for file in ("job.json", "correctness/report.json"):
            build.put_file(job_id(key, None, 0), f"out/{file}", (folder / file).read_bytes())

    problems = build.download()

    assert problems == ()
    records = [path.read_text() for path in build.into.rglob("job.json")]
    assert sum(":pytest: a" in text for text in records) == 1
    assert sum(":pytest: b" in text for text in records) == 1
    assert len(build.names("report.json")) == 2


def test_the_folder_of_a_download_is_never_taken_for_a_part_of_a_path(tmp_path: Path) -> None:
    build = MadeUpBuild(tmp_path)
    for job in ("j1", "j2"):
        build.put_file(job, f"{job}/job.json", f'{{"of": "{job}"}}'.encode())
        # The same path in both: each is downloaded into a folder named by its job.
        build.put_file(job, "j1/extra/job.json", f'{{"schema": "ci-doctor/job/1 {job}"}}'.encode())

    problems = build.download()

    assert problems == ()
    assert len(build.names("job.json")) == 4


def test_this_job_and_earlier_attempts_of_its_step_are_left_out(tmp_path: Path) -> None:
    build = MadeUpBuild(tmp_path)
    build.put(a_job("unit"), a_job("publish", verdict="failed"))
    build.put_file(OWN, f"{OWN}/job.json")

    build.download()

    text = "".join(path.read_text() for path in build.into.rglob("*.json"))
    assert ":pytest: unit" in text
    assert "publish" not in text
    assert len(build.names()) == 2


def test_a_report_of_another_tool_is_not_taken_for_ours_but_a_damaged_one_is(
    tmp_path: Path,
) -> None:
    build = MadeUpBuild(tmp_path)
    build.put_file("j1", "playwright/report.json", b'{"suites": []}')
    build.put_file("j1", "j1/correctness/report.json", b"\x00\x00")
    build.put_file("j1", "x/report.json", b"")
    # What may be ours: zeros after a crash of the machine, one cut in its first line, and one with
    # its keys in another order.
    build.put_file("j1", "zeros/report.json", b"\x00\x00")
    build.put_file("j1", "cut/report.json", b'{\n  "schema": "ci-do')
    sorted_keys = b'{"argv": ["%s"], "schema": "ci-doctor/report/2"}' % (b"x" * 5000)
    build.put_file("j1", "sorted/report.json", sorted_keys)

    build.download()

    assert build.names() == [
        "cut/report.json",
        "j1/correctness/report.json",
        "sorted/report.json",
        "x/report.json",
        "zeros/report.json",
    ]


def test_a_hostile_path_leaves_no_file_outside_and_hides_no_other(tmp_path: Path) -> None:
    build = MadeUpBuild(tmp_path)
    build.put(a_job("unit"))
    build.put_file("j9", "../../../escaped/report.json")

    problems = build.download()

    assert any("escaped" in problem for problem in problems)
    assert not list(tmp_path.parent.rglob("escaped"))
    assert len(build.names("report.json")) == 1


def test_a_build_without_any_file_is_no_problem_of_the_download(tmp_path: Path) -> None:
    for version in ("3.110.0", "3.40.0"):  # --allow-empty-results came with 3.43
        folder = tmp_path / version
        folder.mkdir()

        build = MadeUpBuild(folder, version=version)

        assert (build.download(), build.names()) == ((), [])


def test_without_an_agent_it_says_so(tmp_path: Path) -> None:
    problems = download_current({"PATH": ""}, tmp_path)

    assert problems == (
        "not a Buildkite job, or no buildkite-agent on PATH: nothing is downloaded",
    )


def test_an_api_that_answers_500_is_a_problem_and_no_empty_build(tmp_path: Path) -> None:
    for failing in ("artifact search", "artifact download"):
        folder = tmp_path / failing.replace(" ", "-")
        folder.mkdir()
        build = MadeUpBuild(folder, failing=failing)
        build.put(a_job("unit"))

        problems = build.download()

        assert build.names() == []
        assert any("500 Internal Server Error" in problem for problem in problems)


@pytest.mark.parametrize("version", ["3.23.0", "3.43.0", "3.109.0", "3.109.1", "3.110.0", "4.0.0"])
@pytest.mark.gate(2)
def test_every_agent_that_can_search_finds_all_files(version: str, tmp_path: Path) -> None:
    build = MadeUpBuild(tmp_path, version=version)
    jobs = a_red_build()
    build.put(*jobs, retried=frozenset({str(jobs[2].about.job)}))
    # A folder may have the name of a record.
    build.put_file("j9", "job.json/job.json", b'{"schema": "ci-doctor/job/1"}')

    problems = build.download()

    assert problems == ()
    assert len(build.names("*/job.json")) == len(jobs) + 1
    assert len(build.names("report.json")) == len(jobs)
    assert "job.json/job.json" in build.names()
    assert len(build.calls("artifact")) == 4


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param(r"\x1ej1\x1f12\x1fa/job.json\x1e\n", id="a format that was not unquoted"),
        pytest.param("j1 a/job.json 2026-11-21T10:00:00Z\n", id="another format"),
        pytest.param("\\036j1\\03712\\037a/job.json\\036 and then some", id="a record and more"),
        pytest.param("", id="nothing, in spite of status 0"),
    ],
)
def test_a_search_whose_answer_is_not_understood_is_no_empty_build(
    printed: str, tmp_path: Path
) -> None:
    build = MadeUpBuild(tmp_path)
    agent = tmp_path / "bin" / "buildkite-agent"
    command = f"printf '{printed}'" if printed.startswith("\\036") else f"printf %s '{printed}'"
    agent.write_text(f'#!/bin/sh\ncase "$*" in *--help) echo --format; ;; *) {command} ;; esac\n')

    problems = build.download()

    said = "buildkite-agent artifact search ended with status 0 and no answer"
    assert any(problem.startswith(said) for problem in problems)


def test_what_a_search_printed_is_quoted_in_one_line_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "hunter2-hunter2-hunter2")
    build = MadeUpBuild(tmp_path)
    agent = tmp_path / "bin" / "buildkite-agent"
    junk = r"\033[2Ja\nhunter2-hunter2-hunter2"
    agent.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--help) echo --format; exit;; esac\n'
        f"printf '{junk}'\nprintf '%0300000d' 7\n"
    )

    problem = build.download()[0]

    assert problem.isprintable()
    assert "a " in problem
    assert "hunter2" not in problem
    assert len(problem) < 700


@pytest.mark.parametrize(
    "answers",
    ['case "$*" in *--help) echo --format; exit ;; esac', ""],
    ids=["after --help", "at all"],
)
def test_an_agent_that_hangs_is_killed_and_named_and_not_called_too_old(
    tmp_path: Path, answers: str
) -> None:
    build = MadeUpBuild(tmp_path)
    agent = tmp_path / "bin" / "buildkite-agent"
    agent.write_text(f"#!/bin/sh\n{answers}\nexec sleep 600\n")

    problems = build.download(call_s=0.2)

    problem = "buildkite-agent artifact search did not end within 0.2 s, and was given up"
    assert (build.names(), set(problems)) == ([], {problem})


@pytest.mark.parametrize(
    ("version", "limits", "words"),
    [("3.22.0", {}, "older than 3.23"), ("3.110.0", {"all_s": 0}, "")],
)
def test_what_cannot_be_searched_or_has_no_time_is_not_downloaded_and_said(
    tmp_path: Path, version: str, limits: dict[str, float], words: str
) -> None:
    build = MadeUpBuild(tmp_path, version=version)
    build.put(a_job("unit"), a_job("lint"))

    problems = build.download(**limits)

    assert build.names() == []
    assert problems
    assert all(words in problem for problem in problems)


COMMAND = "ci-doctor build publish"


def own_job(**changes: Any) -> JobEnvironment:
    return JobEnvironment(job_id="own", command=COMMAND, **changes)


def is_own(job: JobEnvironment, *, label: str | None, **about: Any) -> bool:
    """Of a record, and of the API's job if that has a name."""
    record = a_job("publish", label=label, command=COMMAND, about={"step": None, **about})
    known = ApiJob(
        job="other",
        step_key=about.get("step"),
        label=label,
        parallel_index=about.get("parallel_index"),
    )
    answer = is_own_record(record, job)
    if label or about.get("step"):
        assert is_own_api_job(known, job) is answer
    return answer


@pytest.mark.parametrize("label", ["report", None])
def test_an_attempt_has_the_key_of_the_job(label: str | None) -> None:
    assert is_own(own_job(step_key="publish", label=label), label="report", step="publish")
    assert not is_own(own_job(step_key="publish", label=label), label="report", step="unit")
    assert not is_own(own_job(step_key="publish", label=label), label="report")


def test_a_parallel_job_of_the_same_step_is_another_one() -> None:
    job = own_job(step_key="e2e", parallel_job=0)

    assert is_own(job, label=None, step="e2e", parallel_index=0)
    assert not is_own(job, label=None, step="e2e", parallel_index=1)


def test_a_job_of_the_same_matrix_is_another_one() -> None:
    assert not is_own(own_job(step_key="e2e", label="py 3.11"), label="py 3.12", step="e2e")


def test_without_a_key_the_label_counts_and_without_both_the_command() -> None:
    assert is_own(own_job(label="report"), label="report")
    assert not is_own(own_job(label="report"), label=None)
    assert not is_own(own_job(), label="report")
    assert is_own(own_job(), label=None)
    assert not is_own_record(a_job("unit", label=None, about={"step": None}), own_job())
