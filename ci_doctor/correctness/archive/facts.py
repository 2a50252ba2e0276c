# SPDX-License-Identifier: Apache-2.0
"""Reads its own source (`comparison`): the facts of an identity that the experiment itself has."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ci_doctor.correctness import tally
from ci_doctor.load import (
    canonical,
    choices,
    event_stream,
    float32,
    logprobs,
    streamed,
    strict_json,
)
from ci_doctor.load.requests import Request
from ci_doctor.version import tool_version

# The modules that turn an answer into an outcome.
_RULES = (canonical, choices, logprobs, float32, streamed, event_stream, strict_json, tally)


def requests_digest(requests: Sequence[Request]) -> str:
    """SHA-256 in hex over id, path and body of every request, in the order of sending."""
    content = hashlib.sha256()
    for request in requests:
        # The order of keys in a body is no difference to a server.
        line = json.dumps([request.id, request.path, request.body], sort_keys=True)
        content.update(line.encode("ascii") + b"\n")
    return content.hexdigest()


def schedule_facts(
    requests: Sequence[Request],
    *,
    passes: int,
    concurrency: int,
    caches: str,
    reset: str | None = None,
) -> Mapping[str, str]:
    """What is sent, and how: requests, passes, concurrency, `caches`, the request between passes.

    The form in which answers are compared is one of the facts: another form has other digests.
    """
    return {
        "requests": f"{len(requests)}, sha256 {requests_digest(requests)[:16]}",
        "schedule.passes": str(passes),
        "schedule.concurrency": str(concurrency),
        "schedule.caches": caches,
        "schedule.reset": reset or "none",
        "comparison": comparison(),
    }


@cache
def comparison() -> str:
    """A digest of the rules by which answers become comparable."""
    try:
        sources = [Path(str(module.__file__)).read_bytes() for module in _RULES]
    except OSError:
        # Without sources (a zipped package) the version stands for them.
        return tool_version()
    return hashlib.sha256(b"".join(sources)).hexdigest()[:12]
