# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of an identity that the experiment itself has."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from ci_doctor.load.requests import Request

# The form in which answers become comparable. Another form makes other digests of the same answers,
# so a change of it needs another name here. A test holds the name and the digests of fixed answers
# together. The first form is named by what earlier versions of ci-doctor called it (a digest of
# their sources), so that their archives stay usable.
COMPARISON_FORM = "0bc095900a7b"


def requests_digest(requests: Sequence[Request]) -> str:
    """SHA-256 in hex over id, path and body of every request, in the order of sending."""
    content = hashlib.sha256()
    for request in requests:
        # The order of keys in a body is no difference to a server.
        parts: list[object] = [request.id, request.path, request.body]
        # Only if it is named: the digests of earlier versions stay the same.
        parts += request.rare_parts().values()
        line = json.dumps(parts, sort_keys=True)
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
        "comparison": COMPARISON_FORM,
    }
