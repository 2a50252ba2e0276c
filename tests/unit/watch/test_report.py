# SPDX-License-Identifier: Apache-2.0
"""What a report says of a script whose server had died."""

import pytest

from ci_doctor.model.facts.diagnose import WatchedDeath, WatchedServer, WatchFacts
from ci_doctor.model.facts.launch import FailureKind, ServiceFailure
from ci_doctor.model.outcome import Outcome
from ci_doctor.watch.report import with_watch

PORT = 8000
DEATH = WatchedDeath(
    failure=ServiceFailure(
        kind=FailureKind.DIED, service="vllm", message="vllm (pid 7) died", duration_s=1.0
    ),
    waits="the script still waits for port 8000",
    said_s=5.0,
    port=PORT,
)


@pytest.mark.parametrize(
    ("status", "again_s", "summary"),
    [
        (7, None, "vllm (pid 7) died; then bash: exit code 7"),
        (7, 3.0, "vllm (pid 7) died; then bash: exit code 7"),
        (7, 9.0, "bash: exit code 7"),
        (0, None, "bash: exit code 7"),
    ],
    ids=["failed", "served before", "served again", "succeeded"],
)
def test_a_script_that_fails_after_its_server_died_is_summed_up_by_that_death(
    status: int, again_s: float | None, summary: str
) -> None:
    servers = () if again_s is None else (WatchedServer(port=PORT, command="x", start_s=again_s),)
    outcome = Outcome(verdict=None, summary="bash: exit code 7", command_status=status)
    facts = WatchFacts(deaths=(DEATH,), servers=servers)
    assert with_watch(outcome, facts).summary == summary
