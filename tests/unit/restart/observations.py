# SPDX-License-Identifier: Apache-2.0
"""A restart in which everything went well, to be changed by tests."""

from typing import Any

from msgspec import structs

from ci_doctor.model.facts.restart_check import (
    AnswerComparison,
    ConditionResult,
    Counts,
    Observation,
    Phase,
    ProcessIdentity,
    Released,
    Terms,
)

TERMS = Terms(
    kill="worker",
    signal="SIGKILL",
    request_timeout_s=30.0,
    release_timeout_s=10.0,
    recovery_timeout_s=120.0,
    throughput=0.8,
    same_outputs=True,
)
PHASES = {
    Phase.CONTROL: Counts(ok=4, seconds=0.5, rate=8.0),
    Phase.BASELINE: Counts(ok=8, seconds=1.0, rate=8.0),
    Phase.KILL: Counts(ok=2, failed=2, seconds=0.5, errors=("refused",)),
    Phase.OUTAGE: Counts(failed=20, seconds=5.0, errors=("refused",)),
    Phase.RECOVERY: Counts(ok=1, failed=1, seconds=0.5),
    Phase.AFTER: Counts(ok=8, seconds=1.1, rate=7.5),
}
ANSWERS = AnswerComparison(
    requests=4,
    different_before=4,
    different_after=4,
    compared=4,
    steady=4,
    models_before=("tiny",),
    models_after=("tiny",),
)
GOOD = Observation(
    requests=4,
    phases=PHASES,
    killed_at=2,
    ended_s=0.01,
    released=Released(port=8000, port_s=0.0, tree_s=0.01, memory_s=0.01, rss=1 << 20),
    outage_s=5.0,
    ready_s=0.4,
    recovered_s=0.5,
    conditions=(ConditionResult(label="/ready", after_s=0.5),),
    answers=ANSWERS,
    old=ProcessIdentity(pid=1, started=10),
    new=ProcessIdentity(pid=2, started=20),
)


def seen(**changes: Any) -> Observation:
    return structs.replace(GOOD, **changes)
