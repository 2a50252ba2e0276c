# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.correctness.archive.build_origin import BuildOrigin, build_origin

COMMIT = "a" * 40
BASE = "b" * 40


def test_jobs_of_one_build_and_their_retries_are_one_build() -> None:
    origins = []
    for job in ("0190-j", "0190-k"):
        environment = JobEnvironment(job_id=job, build_id="0190-b", build_number=42, commit=COMMIT)
        origins.append(build_origin(environment, "host 1", None, BASE))
    assert origins[0] == BuildOrigin(
        id="0190-b", number=42, job="0190-j", commit=COMMIT, baseline_commit=BASE
    )
    assert origins[1].id == origins[0].id
    assert origins[0].commits == (COMMIT, BASE)


def test_outside_buildkite_the_run_is_the_build() -> None:
    assert build_origin(None, "host 1", COMMIT, COMMIT) == BuildOrigin(
        id="host 1", commit=COMMIT, baseline_commit=COMMIT
    )


@pytest.mark.parametrize("commit", ["HEAD", "main", "", None, "a" * 12, "../" + "a" * 40])
def test_what_is_no_commit_is_unknown(commit: str | None) -> None:
    job = JobEnvironment(job_id="0190-j", commit=commit)
    assert build_origin(job, "host 1", COMMIT, None).commit == COMMIT
    origin = build_origin(job, "host 1", commit, commit)
    assert (origin.id, origin.commits) == ("0190-j", ())
