# SPDX-License-Identifier: Apache-2.0
"""Pure. What the plugin keeps of one Buildkite job, and the facts of `ci-doctor build merge`: every job of a build."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from ci_doctor.model.cause import Cause
from ci_doctor.model.facts import Facts
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


# --- the facts of `ci-doctor build merge`: every job of a build, by step and by cause ---


class RetryWorth(StrEnum):
    """Whether a retry made sense.

    `helped`: the cause lay outside the change, and the next attempt passed. `in vain`: the next
    attempt failed too. `hid a failure`: the next attempt passed, and nothing says that the cause lay
    outside the change: the step is flaky, or the change is. `unknown`: one of the two attempts has no
    verdict, as it was cancelled or left no report.
    """

    HELPED = "helped"
    IN_VAIN = "in vain"
    HID_A_FAILURE = "hid a failure"
    UNKNOWN = "unknown"


class JobFacts(Struct, frozen=True, kw_only=True):
    """One job of the build, which is one attempt of a step.

    job: Buildkite's id; None for a report that was made outside a job. attempt: from 0. queued_s:
    seconds between being runnable and the start; None if nobody knows. began_at, ended_at: RFC 3339
    in UTC. verdict: a verdict, `error`, or `missing` for a job without any report. exit_status: of
    the job; None if it is unknown. cause: the fingerprint of one of the build's causes. gpus: the
    number of GPUs on its machine; None if nobody knows. cancelled: somebody stopped it, so that it says
    nothing of the change. soft_failed: it failed, and the pipeline lets it (`soft_fail`). reports: folders with a report.json, as the
    Artifacts tab shows them. retry: None if no attempt follows,
    or if this one passed.
    """

    job: str | None
    attempt: int = 0
    queued_s: float | None = None
    began_at: str | None = None
    ended_at: str | None = None
    verdict: str
    summary: str
    exit_status: int | None = None
    cause: str | None = None
    agent: str | None = None
    queue: str | None = None
    gpus: int | None = None
    cancelled: bool = False
    soft_failed: bool = False
    url: str | None = None
    reports: tuple[str, ...] = ()
    retry: RetryWorth | None = None


class StepFacts(Struct, frozen=True, kw_only=True):
    """A step, or one parallel job or matrix job of it, with its attempts from the first one on.

    name: what a reader calls it, and different for each. verdict: that of the last attempt. key:
    the step's key. label: as the pipeline gives it.
    """

    name: str
    key: str | None = None
    label: str | None = None
    parallel_index: int | None = None
    verdict: str
    attempts: tuple[JobFacts, ...]


class CauseFacts(Cause, frozen=True, kw_only=True):
    """One cause, and all that it cost.

    steps: names of the steps in which it ended an attempt. jobs: how many attempts. seconds: their
    wall clock in all; gpu_seconds: the same times the GPUs of their machines, None if no machine's
    are known. cancelled: somebody stopped these jobs, and nothing failed.
    """

    steps: tuple[str, ...]
    jobs: int
    seconds: float | None = None
    gpu_seconds: float | None = None
    cancelled: bool = False


class BuildFacts(Facts, frozen=True, kw_only=True):
    """A build, a matrix, or whatever reports were merged.

    build_steps: worst first. causes: those of the change first, then those that another run helps,
    those that a retry or the pipeline has let pass, and cancelled jobs; the dearest first among
    equals. cause_rule: of the findings that say the same. missing: names of expected steps, and of
    known jobs, without a report. duplicates: names of steps of which two reports claim the same
    attempt. began_at, ended_at: of all jobs. knows_queue: queue times come from Buildkite's API.
    """

    pipeline: str | None = None
    build: int | None = None
    build_url: str | None = None
    commit: str | None = None
    branch: str | None = None
    began_at: str | None = None
    ended_at: str | None = None
    build_steps: tuple[StepFacts, ...] = ()
    causes: tuple[CauseFacts, ...] = ()
    cause_rule: str = ""
    missing: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    knows_queue: bool = False
