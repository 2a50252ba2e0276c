# SPDX-License-Identifier: Apache-2.0
"""Pure. What the plugin keeps of one Buildkite job: `job.json`, from which a build is merged."""

from typing import Annotated

from msgspec import Meta, Struct

from ci_doctor.model.cause import Cause
from ci_doctor.model.outcome import About


class EarlierAttempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of a job, counted from 0.

    verdict: a verdict or `error`; None if nothing is known of it. cause: one line. exit_status: of
    the job. job: Buildkite's id of it.
    """

    attempt: int
    verdict: str | None = None
    cause: str | None = None
    exit_status: int | None = None
    job: str | None = None


# History: 1 = first form (2026-11).
SCHEMA = "ci-doctor/job/1"
JOB_FILE = "job.json"


class JobRecord(Struct, frozen=True, kw_only=True):
    """One job of a build, which is one attempt of a step, as its plugin knew it at its end.

    began_at, ended_at: RFC 3339 in UTC, from the first hook of the plugin to its last one; None if
    that did not run. command_status: of the step's command as it ended, -1 for a signal, None if it
    never ran. work: stands for all that the pipeline gives the job to do, None if its agent does not
    tell. exit_status: what the job ends with as far as the plugin knows. verdict: a verdict,
    or `error` for a job that was cancelled, or ended before anything was judged. reports: the
    folders of its reports, relative to this file.
    """

    schema: Annotated[str, Meta(pattern="^ci-doctor/job/1$")] = SCHEMA
    tool_version: str
    about: About
    label: str | None = None
    parallel_count: int | None = None
    command: str | None = None
    work: str | None = None
    began_at: str | None = None
    ended_at: str | None = None
    command_status: int | None = None
    exit_status: int | None = None
    is_cancelled: bool = False
    is_timed_out: bool = False
    verdict: str
    summary: str
    cause: Cause | None = None
    reports: tuple[str, ...] = ()
