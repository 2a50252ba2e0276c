# SPDX-License-Identifier: Apache-2.0
"""Reads the log of a failed command for its cause. What goes wrong here changes no exit code."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.diagnosis.diagnosis import Diagnosis, diagnose, load_rules
from ci_doctor.diagnosis.outcome import outcome_of
from ci_doctor.errors import CiDoctorError, Terminated
from ci_doctor.model.facts.diagnose import DiagnoseFacts
from ci_doctor.model.finding import Finding


class CauseOfFailure(Struct, frozen=True, kw_only=True):
    """What the log says: `facts` and `findings` of a diagnosis, or a sentence on why there is none.

    retry_helps: the command ended by a cause outside the change, and by the policy of its class
    another run helps.
    """

    facts: DiagnoseFacts | None = None
    findings: tuple[Finding, ...] = ()
    retry_helps: bool = False
    problem: str | None = None


def find_cause(log: Path, rules: Sequence[Path], status: int) -> CauseOfFailure:
    """The diagnosis of `log`, whose command ended with `status`, negative for a signal.

    A signal gives it up: the command that it was for has ended.
    """
    try:
        if log.is_file() and log.stat().st_size == 0:
            return CauseOfFailure(problem="no diagnosis: the command wrote nothing")
        return _of(diagnose([str(log)], load_rules(tuple(rules)), status=status))
    except (KeyboardInterrupt, Terminated):
        return CauseOfFailure(problem="the diagnosis was interrupted")
    except CiDoctorError as error:
        return CauseOfFailure(problem=f"no diagnosis: {error.message}")
    except Exception as error:  # noqa: BLE001 - the command's own status must come through
        return CauseOfFailure(problem=f"no diagnosis: {type(error).__name__}: {error}")


def _of(diagnosis: Diagnosis) -> CauseOfFailure:
    for reason in diagnosis.unreadable.values():
        return CauseOfFailure(problem=f"no diagnosis: the log cannot be read: {reason}")
    outcome = outcome_of(diagnosis)
    assert isinstance(outcome.facts, DiagnoseFacts)  # noqa: S101 - its own facts
    return CauseOfFailure(
        facts=outcome.facts,
        findings=outcome.findings,
        retry_helps=diagnosis.cause is not None and diagnosis.cause.may_be_retried,
    )
