# SPDX-License-Identifier: Apache-2.0
"""Pure. The jobs of a build as Buildkite's REST API describes them."""

from typing import Any

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.model.facts.build import JobFacts
from ci_doctor.model.words import known_moment_text, parse_moment

# --- a job as Buildkite's REST API describes it, for what no report can know ---


class ApiJob(Struct, frozen=True, kw_only=True):
    """One job of a build (https://buildkite.com/docs/apis/rest-api/builds).

    job: its id. attempt: from 0. queued_s: seconds from runnable to started. began_at, ended_at:
    RFC 3339 in UTC. state: the API's word, such as `failed` or `broken`. What the API does not say
    is None.
    """

    job: str
    step_key: str | None = None
    label: str | None = None
    parallel_index: int | None = None
    attempt: int = 0
    state: str | None = None
    exit_status: int | None = None
    is_soft_failed: bool = False
    queued_s: float | None = None
    began_at: str | None = None
    ended_at: str | None = None
    agent: str | None = None
    queue: str | None = None
    url: str | None = None


# --- times of jobs, which agents with clocks of their own have written down ---


def in_utc(text: str | None) -> str | None:
    """An RFC 3339 time in UTC, to the millisecond; None if `text` is none."""
    return known_moment_text(parse_moment(text))


def duration_s(job: JobFacts) -> float | None:
    """Wall clock of a job; None if a time is unknown."""
    began = parse_moment(job.began_at)
    ended = parse_moment(job.ended_at)
    if began is None or ended is None:
        return None
    return round(ended - began, 3)


# --- the jobs in a build as the REST API returns it, with queue times and attempts ---
# https://buildkite.com/docs/apis/rest-api/builds#get-a-build


class _Agent(Struct, frozen=True):
    name: str | None = None
    meta_data: list[str] | None = None


class _Job(Struct, frozen=True):
    id: str
    type: str | None = None
    name: str | None = None
    step_key: str | None = None
    state: str | None = None
    exit_status: int | None = None
    soft_failed: bool | None = None
    web_url: str | None = None
    agent: _Agent | None = None
    agent_query_rules: list[str] | None = None
    runnable_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    retried_in_job_id: str | None = None
    retries_count: int | None = None
    parallel_group_index: int | None = None


def jobs_of(body: bytes) -> tuple[ApiJob, ...]:
    """The command jobs of a build; waits, blocks, inputs and triggers are left out.

    Raises ValueError if `body` is no such build.
    """
    try:
        everything = msgspec.json.decode(body, type=decodable(dict[str, Any]))["jobs"]
        # `script` is a command step's: https://buildkite.com/docs/apis/rest-api/jobs. A block step's entry has no id of
        # a job, and may have any form.
        scripts = msgspec.convert(
            [each for each in everything if each.get("type") == "script"], decodable(list[_Job])
        )
    except (msgspec.DecodeError, UnicodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the answer is no build: {error}") from error
    attempts = _attempts(scripts)
    return tuple(_api_job(job, attempts[job.id]) for job in scripts)


def _attempts(jobs: list[_Job]) -> dict[str, int]:
    """The attempt of each job, from 0: a retried job names the one that took its place."""
    earlier = {job.retried_in_job_id: job.id for job in jobs if job.retried_in_job_id}
    attempts = {}
    for job in jobs:
        # The jobs before it; those that name each other in a circle are counted once.
        chain: list[str] = []
        before = earlier.get(job.id)
        while before is not None and before not in chain:
            chain.append(before)
            before = earlier.get(before)
        # Without retried jobs in the answer the count is all that is known.
        attempts[job.id] = len(chain) or job.retries_count or 0
    return attempts


def _api_job(job: _Job, attempt: int) -> ApiJob:
    agent = job.agent or _Agent()
    return ApiJob(
        job=job.id,
        step_key=job.step_key or None,
        label=job.name or None,
        parallel_index=job.parallel_group_index,
        attempt=attempt,
        state=job.state,
        exit_status=job.exit_status,
        is_soft_failed=bool(job.soft_failed),
        queued_s=_seconds(job.runnable_at, job.started_at),
        began_at=in_utc(job.started_at),
        ended_at=in_utc(job.finished_at),
        agent=agent.name,
        queue=_queue(agent.meta_data) or _queue(job.agent_query_rules),
        url=job.web_url,
    )


def _queue(words: list[str] | None) -> str | None:
    """The queue in `queue=NAME`, as an agent's tags and a step's rules have it."""
    for word in words or []:
        if word.startswith("queue="):
            return word.removeprefix("queue=")
    return None


def _seconds(runnable_at: str | None, started_at: str | None) -> float | None:
    """None if one is unknown, or if they are in the wrong order."""
    begin = parse_moment(runnable_at)
    end = parse_moment(started_at)
    if begin is None or end is None or end < begin:
        return None
    return round(end - begin, 3)
