# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: asks Buildkite's REST API for the jobs of this build, if there is a token.

No report knows how long a job waited, nor that one without any report exists. The API does
(https://buildkite.com/docs/apis/rest-api/builds; scope `read_builds`).
"""

from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.build.api_job import ApiJob
from ci_doctor.build.api_reply import jobs_of
from ci_doctor.buildkite.api_time import SPENT, ApiTime
from ci_doctor.buildkite.bounded_request import HttpReply, Patience, RequestLimits, request
from ci_doctor.buildkite.rest_address import BUILD, address, missing_variables, refusal, token

_UNKNOWN = "queue times are unknown"
_STATUSES = {
    401: "the token is not valid",
    403: "the token lacks the scope read_builds",
    404: "the token may not read this pipeline, or there is no such build",
}


class KnownJobs(Struct, frozen=True, kw_only=True):
    """The jobs of the build as the API knows them; None without a token, and if it failed.

    `problem` is a sentence about a failure. No token is none.
    """

    jobs: tuple[ApiJob, ...] | None = None
    problem: str | None = None


def read_jobs(
    environ: Mapping[str, str],
    *,
    limits: RequestLimits | None = None,
    api_time: ApiTime | None = None,
) -> KnownJobs:
    """All jobs of this build, retried ones too. Never raises for the API's failures.

    api_time: what is left of it in this process; without it, for the job.
    """
    secret = token(environ)
    if not secret:
        return KnownJobs()
    missing = missing_variables(environ, BUILD)
    if missing:
        return _failed(f"{', '.join(missing)} is not set")
    refused = refusal(environ)
    if refused is not None:
        return _failed(refused)
    url = f"{address(environ, BUILD)}?include_retried_jobs=true&exclude_pipeline=true"
    headers = {"Authorization": f"Bearer {secret}", "Accept": "application/json"}
    api_time = api_time or ApiTime.of_job(environ)
    if api_time.left_s() <= 0:
        return _failed(f"not asked, as {SPENT}")
    patience = Patience(limits or RequestLimits(), most_s=api_time.left_s())
    with api_time.counted():
        reply = request("GET", url, patience, headers=headers)
    return _known(reply)


def _known(reply: HttpReply) -> KnownJobs:
    if reply.problem is not None:
        reason = _STATUSES.get(reply.status or 0)
        if reply.status is None:
            return _failed(f"{reply.problem}, and it was given up")
        return _failed(f"{reply.problem}: {reason}" if reason else reply.problem)
    try:
        return KnownJobs(jobs=jobs_of(reply.body))
    except ValueError as error:
        return _failed(str(error))


def _failed(reason: str) -> KnownJobs:
    return KnownJobs(problem=f"Buildkite's REST API: {reason}; {_UNKNOWN}")
