# SPDX-License-Identifier: Apache-2.0
"""Acts on files: made-up builds, as their jobs' files lie on the Artifacts tab."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec.structs import replace

from ci_doctor.build.collect import Material, RecordFile, ReportFile
from ci_doctor.model.cause import Cause, LogLine, RetryPolicy
from ci_doctor.model.facts.build import JOB_FILE, JobRecord
from ci_doctor.model.outcome import EXIT_CODES, About, Report, Verdict
from ci_doctor.render import json
from tests.support.builders import a_report

MAIN_BUILD = {
    "BUILDKITE": "true",
    "BUILDKITE_JOB_ID": "0190-j",
    "BUILDKITE_BRANCH": "main",
    "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
    "BUILDKITE_PULL_REQUEST": "false",
    "BUILDKITE_BUILD_NUMBER": "42",
    "BUILDKITE_COMMIT": "0123456789abcdef",
    "BUILDKITE_BUILD_URL": "https://buildkite.com/o/p/builds/42",
}

BUILD_URL = "https://buildkite.com/acme/serving/builds/812"
BEGIN = datetime(2026, 11, 21, 9, 58, 12, tzinfo=UTC)
FULL_DISK = Cause(
    fingerprint="5d1c9a70e2b4",
    title="a disk is full",
    class_="disk",
    place=LogLine(
        file="server.log",
        line=212,
        message="OSError: [Errno 28] No space left on device: '/var/cache/models/llama-70b/model-00017.safetensors'",
    ),
    remedy="Free some space on `/var/cache`, or clean old models there.",
    retry=RetryPolicy.YES,
    is_outside=True,
    is_final=True,
)
ASSERTION = Cause(
    fingerprint="0b7e44f1a9c3",
    title="an assertion of a test failed",
    class_="test-failure",
    place=LogLine(
        file="tests/test_serving.py",
        line=48,
        message="AssertionError: expected 100 answers, got 97",
    ),
    remedy="Run the test by itself: `pytest tests/test_serving.py -k answers`.",
)


def moment(second: float) -> str:
    """RFC 3339 of `second` after the build's begin."""
    at = BEGIN + timedelta(seconds=second)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def job_id(*parts: object) -> str:
    """A job id in Buildkite's form, the same for the same parts."""
    return str(uuid5(NAMESPACE_URL, "/".join(map(str, parts))))


def an_about(key: str, attempt: int = 0, **changes: Any) -> About:
    """Where a job of the made-up build ran; `changes` are fields of About."""
    about = About(
        pipeline="serving",
        build=812,
        build_url=BUILD_URL,
        job=job_id(key, changes.get("parallel_index"), attempt),
        step=key,
        attempt=attempt,
        commit="9f2c1d7e4b5a6c8d9e0f1a2b3c4d5e6f7a8b9c0d",
        branch="main",
        repository="https://github.com/acme/serving",
        agent=f"gpu-{len(key) % 4}",
        queue="h100",
        gpus=("NVIDIA H100", "NVIDIA H100"),
    )
    return replace(about, **changes)


def a_job(
    key: str = "e2e",
    *,
    attempt: int = 0,
    verdict: str = "pass",
    began: float = 0.0,
    seconds: float = 60.0,
    about: dict[str, Any] | None = None,
    **changes: Any,
) -> JobRecord:
    """One attempt of step `key`, from second `began` of the build on.

    `about` are fields of About, `changes` those of JobRecord.
    """
    status = _status(verdict)
    record = JobRecord(
        tool_version="0.1.0",
        about=an_about(key, attempt, **(about or {})),
        label=f":pytest: {key}",
        command=f"bash ci/{key}.sh",
        began_at=moment(began),
        ended_at=moment(began + seconds),
        command_status=status,
        exit_status=status,
        verdict=verdict,
        summary=f"{key} ended with {status}",
    )
    return replace(record, **changes)


def _status(verdict: str) -> int:
    if verdict not in list(Verdict):
        return 1
    return 0 if verdict == Verdict.FLAKY else int(EXIT_CODES[Verdict(verdict)])


def a_report_of(record: JobRecord, command: str = "correctness", **changes: Any) -> Report:
    """A report that a command of the job wrote, with the job's verdict; `changes` as of Report."""
    verdict = Verdict(record.verdict) if record.verdict in list(Verdict) else None
    report = a_report(verdict, command=command, about=record.about, started_at=record.began_at)
    return replace(report, **changes)


def write_job(root: Path, record: JobRecord, reports: Sequence[Report] = ()) -> Path:
    """Write a job's files as `<job id>/job.json` and `<job id>/<command>/report.json`."""
    folder = root / str(record.about.job)
    folders = tuple(report.command for report in reports)
    write_record(folder / JOB_FILE, replace(record, reports=folders))
    for report in reports:
        write_report(folder / report.command / "report.json", report)
    return folder


def write_record(path: Path, record: JobRecord) -> None:
    """Write `record` as a file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(record))


def write_report(path: Path, report: Report) -> None:
    """Write `report` as a file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.render(report), encoding="utf-8")


def material_of(*records: JobRecord, reports: Iterable[Report] = ()) -> Material:
    """The records and reports as the Artifacts tab has them."""
    return Material(
        records=tuple(
            RecordFile(place=f"{each.about.job}/job.json", record=each) for each in records
        ),
        reports=tuple(
            ReportFile(place=f"{each.about.job}/{each.command}/report.json", report=each)
            for each in reports
        ),
    )


def a_red_build() -> tuple[JobRecord, ...]:
    """A build of six steps.

    Two met one full disk, and a retry helped one of them; one failed an assertion twice; one passed
    on its second attempt without an excuse; two passed.
    """
    disk: dict[str, Any] = {"verdict": "infra", "cause": FULL_DISK, "summary": FULL_DISK.title}
    wrong: dict[str, Any] = {"verdict": "failed", "cause": ASSERTION, "summary": ASSERTION.title}
    return (
        a_job("lint", seconds=40),
        a_job("unit", seconds=200),
        a_job("restart", began=10, seconds=300, **disk),
        a_job("restart", attempt=1, began=320, seconds=600),
        a_job("kv-cache", began=10, seconds=320, **disk),
        a_job("answers", began=15, seconds=500, **wrong),
        a_job("answers", attempt=1, began=530, seconds=480, **wrong),
        a_job("latency", began=20, seconds=90, verdict="failed"),
        a_job("latency", attempt=1, began=120, seconds=95),
    )


def many_jobs(steps: int, *, attempts: int = 1) -> tuple[JobRecord, ...]:
    """`steps` steps of so many attempts each; every tenth met the full disk in all but the last."""
    jobs = []
    for step in range(steps):
        for attempt in range(attempts):
            is_red = step % 10 == 0 and attempt < max(1, attempts - 1)
            red: dict[str, Any] = {"verdict": "infra", "cause": FULL_DISK}
            job = a_job(
                f"step-{step:04}",
                attempt=attempt,
                began=step % 40 * 5 + attempt * 130,
                seconds=60 + step % 60,
                **(red if is_red else {}),
            )
            jobs.append(job)
    return tuple(jobs)


def write_build(root: Path, jobs: Iterable[JobRecord], *commands: str) -> Path:
    """Write each job below `root`, with a report of each of the `commands`."""
    for job in jobs:
        reports = [a_report_of(job, command) for command in commands]
        write_job(root, job, reports)
    return root
