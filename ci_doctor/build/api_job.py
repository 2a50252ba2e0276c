# SPDX-License-Identifier: Apache-2.0
"""Pure. A job as Buildkite's REST API describes it, for what no report can know."""

from msgspec import Struct


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
