# SPDX-License-Identifier: Apache-2.0
"""Pure. From how a command ended, and the cause in its log, to an outcome."""

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from ci_doctor.model.facts.supervised_run import SupervisedRunFacts
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Attachment
from ci_doctor.supervision.request import Supervised, SupervisionRequest
from ci_doctor.supervision.talk import talk
from ci_doctor.system.processes.process import describe_status, signal_name

if TYPE_CHECKING:
    from ci_doctor.supervision.cause_of_failure import CauseOfFailure
    from ci_doctor.system.relay.relay import CommandEnd

_LOG_TITLE = "what the command wrote"


class Ended(Struct, frozen=True, kw_only=True):
    """A command that has ended.

    cause: None if nobody looked for one. log: what it wrote; None if that was not kept. problems:
    sentences on output that could not be handed on or kept. kernel: what the kernel says of a
    command that a signal ended.
    """

    end: "CommandEnd"
    cause: "CauseOfFailure | None" = None
    log: Path | None = None
    problems: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the diagnosis."""
        if self.cause is None:
            return ()
        return self.cause.findings

    @property
    def retry_helps(self) -> bool:
        """Whether the command ended by a cause outside the change, and another run helps."""
        return self.cause is not None and self.cause.retry_helps


def conclude(request: SupervisionRequest, ended: Ended) -> Supervised:
    """What is reported, and how ci-doctor ends.

    The status is the command's own, unless the request has another one for such a failure.
    """
    end = ended.end
    status = end.shell_status
    signal = end.signal
    if request.retry_status is not None and ended.retry_helps and status:
        status = request.retry_status
        signal = None
    summary = f"{request.command[0]}: {describe_status(end.returncode)}"
    outcome = structs.replace(
        request.prepared,
        # A diagnosis judges nothing.
        verdict=None,
        summary=summary,
        # The cause first: whoever reads one finding alone gets it.
        findings=(*ended.findings, *request.prepared.findings),
        facts=_facts(request, ended),
        attachments=_attachments(ended.log),
        command_status=status,
    )
    text = _text(summary, ended)
    return Supervised(
        outcome=outcome, text=text, signal=signal, is_explained=ended.cause is not None
    )


def _facts(request: SupervisionRequest, ended: Ended) -> SupervisedRunFacts:
    end = ended.end
    prepared = structs.asdict(request.prepared.facts)
    return SupervisedRunFacts(
        **prepared,
        command=request.command,
        exit_code=None if end.signal else end.returncode,
        signal=signal_name(end.signal) if end.signal else None,
        log=None if ended.log is None else ended.log.name,
        problems=ended.problems,
        kernel=ended.kernel,
        diagnosis=None if ended.cause is None else ended.cause.facts,
    )


def _attachments(log: Path | None) -> tuple[Attachment, ...]:
    if log is None:
        return ()
    return (Attachment(path=log.name, title=_LOG_TITLE),)


def _text(summary: str, ended: Ended) -> str:
    """Nothing after a success, unless output of it is lost."""
    if ended.cause is not None:
        log = None if ended.log is None else str(ended.log)
        return talk(summary, ended.cause.facts, log, ended.problems, ended.kernel)
    return "".join(f"note: {problem}\n" for problem in ended.end.problems)
