# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor diagnose --follow`."""

import sys
from typing import TYPE_CHECKING

from ci_doctor.diagnosis.follow import follow_logs
from ci_doctor.render.named_cause import named_cause_json, named_cause_text
from ci_doctor.session.delivery import write_data
from ci_doctor.session.log_stream import harmless
from ci_doctor.system.processes.interruption import Interruption

if TYPE_CHECKING:
    from ci_doctor.diagnosis.diagnosis import DiagnoseRequest
    from ci_doctor.model.cause import Cause
    from ci_doctor.session.session import Session


def follow_until_interrupted(session: "Session", request: "DiagnoseRequest") -> int:
    """Print each cause as it appears, with `--json` as a line of JSON; then the report on stderr."""
    redactor = session.redactor
    as_json = session.as_json
    # Its stdout holds a line a cause, and no report behind them.
    session.as_json = False

    def show(cause: "Cause") -> None:
        safe = redactor.value(cause)
        if as_json:
            write_data(sys.stdout, named_cause_json(safe))
        else:
            write_data(sys.stdout, harmless(named_cause_text(safe), sys.stdout))

    interruption = Interruption()
    with interruption.handling():
        outcome = follow_logs(request.logs, request.rules, interruption, show)
        return session.finish(outcome)
