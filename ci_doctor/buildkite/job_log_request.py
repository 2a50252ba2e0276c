# SPDX-License-Identifier: Apache-2.0
"""Reads the job's log by Buildkite's REST API, where the job has a token for it.

GET /v2/organizations/…/pipelines/…/builds/…/jobs/…/log.txt needs a token with the scope
`read_build_logs` (https://buildkite.com/docs/apis/rest-api/jobs). The token never stands in a
message.
"""

from collections.abc import Mapping

from ci_doctor.buildkite.api_time import ApiTime
from ci_doctor.buildkite.bounded_request import HttpReply, Patience, RequestLimits, request
from ci_doctor.buildkite.job_log import CommandOutput, command_output
from ci_doctor.buildkite.rest_address import JOB, address, missing_variables, refusal, token

_MOST_BYTES = 8 * 1024 * 1024
_ALL_S = 10.0
_OK = 200


def request_log(
    environ: Mapping[str, str], *, all_s: float = _ALL_S, most_bytes: int = _MOST_BYTES
) -> CommandOutput | str | None:
    """The command's output, a sentence on why it cannot be had, or None without a token.

    At most the last `most_bytes` bytes of the log, in `all_s` seconds.
    """
    secret = token(environ)
    if not secret or missing_variables(environ, JOB):
        return None
    refused = refusal(environ)
    if refused is not None:
        return f"the job's log cannot be had from the API: {refused}"
    url = f"{address(environ, JOB)}/log.txt"
    headers = {"Authorization": f"Bearer {secret}", "Range": f"bytes=-{most_bytes}"}
    limits = RequestLimits(try_s=all_s, all_s=all_s, tries=1, reply_bytes=most_bytes)
    api_time = ApiTime.of_job(environ)
    with api_time.counted():
        patience = Patience(limits, most_s=api_time.left_s())
        reply = request("GET", url, patience, headers=headers)
    if reply.problem is not None:
        return f"the job's log cannot be had from the API: {reply.problem}"
    return _output(reply)


def _output(reply: HttpReply) -> CommandOutput | str:
    # `bytes 0-99/100` (RFC 9110, 14.4): from the start of the log.
    is_whole = reply.status == _OK or reply.headers.get("content-range", "").startswith("bytes 0-")
    output = command_output(reply.body, is_whole=is_whole)
    return output or "the job's log does not show where the command begins"
