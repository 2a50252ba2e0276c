# SPDX-License-Identifier: Apache-2.0
"""Acts on threads: lets one proof after another use the GPUs, and watches their ECC counters."""

import threading
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu_proof.ecc_counters import counters_or_none, new_errors
from ci_doctor.checks.settings import ALL

# A proof waits for those before it, so all have one deadline. Each ends its programs by limits of
# its own long before; this one is for a driver that hangs where no signal reaches.
DEADLINE_S: Final = 900.0


def proof(id: str, title: str, measure: Callable[[CheckContext], CheckResult]) -> DoctorCheck:  # noqa: A002
    """The check that runs `measure` while no other proof uses the GPUs.

    Whoever asks for proofs needs their answers, whatever the job is going to run.
    """
    return DoctorCheck(
        id=id,
        title=title,
        run=lambda context: _in_turn(context, measure, title),
        need=Need.GPU,
        cost=Cost.GPU_DRIVER,
        needed_for=ALL,
        deadline_s=DEADLINE_S,
        is_measurement=True,
    )


def _in_turn(
    context: CheckContext, measure: Callable[[CheckContext], CheckResult], title: str
) -> CheckResult:
    with context.shared(_turn):
        before = counters_or_none(context)
        result = measure(context)
        after = counters_or_none(context)
    if before is None or after is None:
        return result
    errors = new_errors(before, after, f"during the proof of {title}")
    return replace(result, problems=(*result.problems, *errors))


def _turn(_context: CheckContext) -> threading.Lock:
    return threading.Lock()
