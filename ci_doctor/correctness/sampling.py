# SPDX-License-Identifier: Apache-2.0
"""What the requests themselves say against a comparison of bytes. Pure."""

from collections.abc import Sequence
from pathlib import Path

from ci_doctor.load.requests import Request
from ci_doctor.model.finding import Evidence, Finding, Severity


def sampling_findings(requests: Sequence[Request], path: Path) -> tuple[Finding, ...]:
    """A warning where requests ask for random sampling: their answers may differ by design."""
    random = [
        request
        for request in requests
        if request.body.get("temperature") != 0 and request.body.get("top_k") != 1
    ]
    if not random:
        return ()
    return (
        Finding(
            rule="correctness/not-greedy",
            severity=Severity.WARNING,
            summary=f"{len(random)} of {len(requests)} requests do not ask for temperature 0: their answers may differ by design",
            evidence=(
                Evidence(file=str(path), line=random[0].line, excerpt=f"request {random[0].id}"),
            ),
            remedy='put "temperature": 0 into the body of each request',
        ),
    )
