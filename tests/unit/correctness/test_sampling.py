# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

from ci_doctor.correctness.sampling import sampling_findings
from ci_doctor.load.requests import Request


def test_random_sampling_is_warned_of(tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = [{"temperature": 0}, {"top_k": 1}, {}, {"temperature": 0.7}]
    requests = [
        Request(id=f"r{line}", path="/", body=body, line=line)
        for line, body in enumerate(bodies, start=1)
    ]
    (finding,) = sampling_findings(requests, tmp_path)
    assert finding.summary.startswith("2 of 4 requests do not ask for temperature 0")
    assert finding.evidence[0].line == 3
    assert sampling_findings(requests[:2], tmp_path) == ()
