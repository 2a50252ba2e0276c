# SPDX-License-Identifier: Apache-2.0
"""Times without an offset that cannot be UTC."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from ci_doctor.history.evidence import (
    AttemptEvidence,
    AttemptOutcome,
    EvidenceFile,
    JobEvidence,
    ParsedEvidence,
    PlacedFile,
    evidence_of_file,
    is_own,
    is_repeated,
    shift_to_utc,
    surroundings,
)
from ci_doctor.model.cause import Cause

FAILED = AttemptEvidence(suite="a", name="b", outcome=AttemptOutcome.FAILED)


def placed(place: str, parsed: ParsedEvidence) -> PlacedFile:
    return PlacedFile(place=place, sha256=place, modified_ms=7, parsed=parsed)


def junit(place: str) -> PlacedFile:
    return placed(place, ParsedEvidence(form="junit", attempts=(FAILED,)))


def report(place: str, job: str | None = None) -> PlacedFile:
    parsed = ParsedEvidence(form="report", job=JobEvidence(key=job), attempts=(FAILED,))
    return placed(place, parsed)


def evidence_files(
    files: Sequence[PlacedFile], known: JobEvidence
) -> tuple[list[EvidenceFile], list[str]]:
    """The evidence of `files`, and the places of those left out."""
    own = [file for file in files if is_own(file.place)]
    around = surroundings([file.place for file in files], own)
    left_out = [file.place for file in files if is_repeated(file.place, around)]
    kept = [file for file in files if file.place not in left_out]
    return [evidence_of_file(file, around, known) for file in kept], left_out


def test_a_report_stands_for_the_other_forms_of_its_folder() -> None:
    files = [report("a/report.json"), junit("a/junit.xml"), junit("a/attempts.xml")]

    evidence, left_out = evidence_files([*files, junit("b/junit.xml")], JobEvidence())

    assert [each.place for each in evidence] == ["a/report.json", "b/junit.xml"]
    assert left_out == ["a/junit.xml", "a/attempts.xml"]


def test_artifacts_of_one_job_count_once() -> None:
    files = [junit("junit-7.xml"), junit("attempts-7.xml"), junit("junit-8.xml")]

    evidence, _ = evidence_files([*files, report("x/report.json", "8")], JobEvidence())

    assert [each.place for each in evidence] == ["attempts-7.xml", "x/report.json"]


def test_a_file_belongs_to_the_record_in_the_nearest_folder_above() -> None:
    record = ParsedEvidence(form="job record", job=JobEvidence(key="7", agent="gpu-1"))
    files = [placed("a/job.json", record), junit("a/b/c/unit.xml"), junit("z/unit.xml")]

    evidence, _ = evidence_files(files, JobEvidence(agent="me", commit="abc"))

    jobs = {each.place: each.job for each in evidence}
    assert (jobs["a/b/c/unit.xml"].key, jobs["a/b/c/unit.xml"].agent) == ("7", "gpu-1")
    assert jobs["a/b/c/unit.xml"].commit == "abc"
    assert jobs["z/unit.xml"].agent == "me"
    assert jobs["z/unit.xml"].started_ms == 7


def test_failures_of_a_job_with_a_cause_outside_are_infrastructure() -> None:
    cause = Cause(fingerprint="f", title="no disk", is_outside=True)
    record = ParsedEvidence(form="job record", job=JobEvidence(key="7", cause=cause))

    evidence, _ = evidence_files([placed("a/job.json", record), junit("a/u.xml")], JobEvidence())

    outcomes = {each.outcome for file in evidence for each in file.attempts}
    assert outcomes == {AttemptOutcome.INFRA}
    # The record counts its cause, and the other files of the job do not count it again.
    assert [each.job.cause for each in evidence] == [cause, None]


def test_a_report_without_attempts_stands_for_no_tests() -> None:
    diagnosis = placed("a/report.json", ParsedEvidence(form="report", job=JobEvidence(key="7")))
    files = [diagnosis, junit("a/junit.xml"), junit("b/junit-7.xml")]

    evidence, left_out = evidence_files(files, JobEvidence())

    assert [len(each.attempts) for each in evidence] == [0, 1, 1]
    assert left_out == []


def test_an_artifact_belongs_to_the_record_of_its_job_wherever_that_lies() -> None:
    cause = Cause(fingerprint="f", title="no disk", is_outside=True)
    record = ParsedEvidence(form="job record", job=JobEvidence(key="7", agent="a", cause=cause))
    above = ParsedEvidence(form="job record", job=JobEvidence(key="8", agent="b"))
    file = replace(junit("out/junit.xml"), known=JobEvidence(key="7", build=812))
    files = [placed("7/job.json", record), placed("out/job.json", above), file]

    evidence, _ = evidence_files(files, JobEvidence(step="the step of who ingests"))

    (job,) = [each.job for each in evidence if each.form == "junit"]
    assert (job.key, job.agent, job.build, job.step) == ("7", "a", 812, None)
    (attempt,) = [attempt for each in evidence for attempt in each.attempts]
    assert attempt.outcome is AttemptOutcome.INFRA


def test_local_times_are_moved_into_their_job() -> None:
    hour = 3_600_000
    attempt = replace(FAILED, started_ms=2 * hour)
    parsed = ParsedEvidence(
        form="junit",
        job=JobEvidence(started_ms=2 * hour),
        attempts=(attempt,),
        zoneless_end_ms=2 * hour + 5_000,
    )
    job = JobEvidence(key="7", started_ms=10 * hour, duration_ms=60_000)
    record = placed("7/job.json", ParsedEvidence(form="job record", job=job))
    file = replace(placed("7/junit.xml", parsed), modified_ms=10 * hour + 6_000)

    evidence, _ = evidence_files([record, file], JobEvidence())

    moved = evidence[1]
    assert moved.job.started_ms == 10 * hour
    assert [each.started_ms for each in moved.attempts] == [10 * hour]


def test_the_jobs_of_a_matrix_are_steps_of_their_own() -> None:
    files = []
    for label in ("cuda 12", "cuda 13"):
        job = JobEvidence(key=label, step="unit", label=label)
        files.append(placed(f"{label}/job.json", ParsedEvidence(form="job record", job=job)))
        # A report knows the key of its step, and no label.
        own = ParsedEvidence(form="report", job=JobEvidence(key=label, step="unit"))
        files.append(placed(f"{label}/report.json", own))

    evidence, _ = evidence_files(files, JobEvidence())

    assert [each.job.step for each in evidence] == ["unit (cuda 12)"] * 2 + ["unit (cuda 13)"] * 2


HOUR = 3_600_000
MINUTE = 60_000
START = 1_793_700_000_000  # in UTC
END = START + 20 * MINUTE


@pytest.mark.parametrize("offset", [14.0, 5.5, 5.75, 1.0, 0.0])
def test_a_file_of_an_eastern_zone_lies_before_it_was_written(offset: float) -> None:
    east = round(offset * HOUR)

    shift = shift_to_utc(
        (START + east, END + east), began_ms=None, ended_ms=None, written_ms=END + 2_000
    )

    assert shift == -east


@pytest.mark.parametrize("offset", [-12.0, -8.0, -3.5, 0.0, 2.0])
def test_the_job_of_a_run_names_its_zone(offset: float) -> None:
    moved = round(offset * HOUR)
    job_began = START - 2 * MINUTE

    shift = shift_to_utc(
        (START + moved, END + moved),
        began_ms=job_began,
        ended_ms=END + 3 * MINUTE,
        written_ms=END + 100 * HOUR,  # downloaded later
    )

    assert shift == -moved


def test_a_western_zone_is_not_known_without_the_job() -> None:
    run = (START - 8 * HOUR, END - 8 * HOUR)

    assert shift_to_utc(run, began_ms=None, ended_ms=None, written_ms=END) == 0


def test_a_run_that_no_zone_makes_possible_is_left_as_it_is() -> None:
    run = (START, END)

    assert shift_to_utc(run, began_ms=None, ended_ms=None, written_ms=START - 15 * HOUR) == 0
    assert shift_to_utc(run, began_ms=START + 13 * HOUR, ended_ms=None, written_ms=END * 2) == 0
    # Longer than its job.
    end = START + 10 * MINUTE
    assert shift_to_utc(run, began_ms=START, ended_ms=end, written_ms=end) == 0
