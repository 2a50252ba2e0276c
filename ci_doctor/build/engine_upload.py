# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: uploads results to Buildkite Test Engine, as much as a short time allows.

An upload reports a result and must not change it: each failure is a sentence
(https://buildkite.com/docs/test-engine/importing-json).
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from ci_doctor.build.test_engine import Execution
from ci_doctor.buildkite.bounded_request import HttpReply, Patience, RequestLimits, request
from ci_doctor.model.facts.build_upload import BuildUploadFacts

# The names that Buildkite's own collectors read.
TOKEN_VARIABLE = "BUILDKITE_ANALYTICS_TOKEN"  # noqa: S105 - the variable's name
URL_VARIABLE = "BUILDKITE_ANALYTICS_API_URL"
_URL = "https://analytics-api.buildkite.com/v1"
# As the collectors send them; the service takes 5,000.
BATCH = 100
MOST_EXECUTIONS = 10_000
UPLOAD_LIMITS = RequestLimits(try_s=5.0, all_s=30.0, reply_bytes=1024 * 1024)
_RUN = {
    "key": "BUILDKITE_BUILD_ID",
    "url": "BUILDKITE_BUILD_URL",
    "branch": "BUILDKITE_BRANCH",
    "commit_sha": "BUILDKITE_COMMIT",
    "number": "BUILDKITE_BUILD_NUMBER",
    "job_id": "BUILDKITE_JOB_ID",
    "message": "BUILDKITE_MESSAGE",
}
_REASONS = {401: "the token is not valid", 413: "the upload is too large"}


class _Reply(Struct, frozen=True):
    queued: int = 0
    skipped: int | list[object] = 0
    errors: list[object] = []
    run_url: str | None = None


def run_environment(environ: Mapping[str, str], *, version: str) -> dict[str, str]:
    """The run that the results belong to. Uploads with the same `key`, the build's id, are one run.

    https://buildkite.com/docs/test-engine/test-collection/ci-environments
    """
    run = {"CI": "buildkite", "collector": "ci-doctor", "version": version}
    for name, variable in _RUN.items():
        value = environ.get(variable)
        if value:
            run[name] = value[:1000]
    return run


def upload(
    results: Sequence[Execution],
    environ: Mapping[str, str],
    *,
    token: str,
    run: Mapping[str, str],
    limits: RequestLimits = UPLOAD_LIMITS,
) -> BuildUploadFacts:
    """Upload `results` in batches; after the time for all, or a refused token, the rest is left."""
    url = _address(environ)
    patience = Patience(limits)
    headers = {
        "Authorization": f'Token token="{token}"',
        "Content-Type": "application/json",
    }
    total = BuildUploadFacts()
    sent = 0
    for start in range(0, min(len(results), MOST_EXECUTIONS), BATCH):
        batch = results[start : start + BATCH]
        content = msgspec.json.encode({"format": "json", "run_env": run, "data": batch})
        reply = request("POST", url, patience, headers=headers, content=content)
        total = _added(total, reply)
        if reply.problem is not None:
            break
        sent += len(batch)
    if sent < len(results):
        missing = f"{len(results) - sent} of {len(results)} results are not uploaded"
        total = msgspec.structs.replace(total, problems=(*total.problems, missing))
    return total


def _address(environ: Mapping[str, str]) -> str:
    base = (environ.get(URL_VARIABLE) or _URL).rstrip("/")
    return base if base.endswith("/uploads") else f"{base}/uploads"


def _added(total: BuildUploadFacts, reply: HttpReply) -> BuildUploadFacts:
    if reply.problem is not None:
        reason = _REASONS.get(reply.status or 0)
        problem = f"{reply.problem}: {reason}" if reason else reply.problem
        return msgspec.structs.replace(total, problems=(*total.problems, problem))
    try:
        answer = msgspec.json.decode(reply.body, type=_Reply)
    except (msgspec.DecodeError, UnicodeError):
        problem = "the answer is not that of Test Engine"
        return msgspec.structs.replace(total, problems=(*total.problems, problem))
    skipped = len(answer.skipped) if isinstance(answer.skipped, list) else answer.skipped
    problems = total.problems
    if skipped:
        problems += (f"Test Engine skipped {skipped} results",)
    problems += tuple(f"Test Engine: {str(each)[:300]}" for each in answer.errors[:3])
    return BuildUploadFacts(
        queued=total.queued + answer.queued,
        skipped=total.skipped + skipped,
        address=answer.run_url or total.address,
        problems=problems,
    )
