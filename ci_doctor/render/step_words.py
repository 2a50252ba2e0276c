# SPDX-License-Identifier: Apache-2.0
"""Pure. What each ending of a step is called on the build's page, and what to do about it."""

import signal

from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.meanings import VERDICTS
from ci_doctor.model.verdict import CANCELLED, NO_VERDICT, WORST_FIRST, Verdict
from ci_doctor.render.headline import TIMED_OUT, Headline, job_headline

# Of the logs that the plugin was given, which a reader of the verdict's own meaning does not know.
_NEXT_OF_FAILED = (
    "Read the log of the job. If the option `diagnose` of the plugin names the logs of the command, "
    "their cause stands here."
)


def step_headline(record: JobRecord, *, is_judged: bool) -> Headline:
    """The first words about the job of `record`."""
    if record.is_timed_out:
        return job_headline(TIMED_OUT)
    if record.is_cancelled:
        return job_headline(CANCELLED)
    if passed_without_evidence(record, is_judged=is_judged):
        return job_headline(Verdict.PASS)
    headline = job_headline(record.verdict if record.verdict in WORST_FIRST else NO_VERDICT)
    if record.verdict == Verdict.FAILED and record.command_status:
        return headline._replace(meaning=_ending(record.command_status))
    return headline


def passed_without_evidence(record: JobRecord, *, is_judged: bool) -> bool:
    """Whether the command ended well, and no report judges it (`is_judged`)."""
    is_stopped = record.is_cancelled or record.is_timed_out
    return not is_judged and not is_stopped and record.command_status == 0


def next_step(verdict: str) -> str | None:
    """What to do if no cause is named; None if there is nothing to add."""
    if verdict == Verdict.FAILED:
        return _NEXT_OF_FAILED
    if verdict == Verdict.PASS or verdict not in set(Verdict):
        return None
    return VERDICTS[Verdict(verdict)].remedy


def _ending(status: int) -> str:
    if status == -1:
        return "a signal ended the command"
    try:
        name = signal.Signals(status - 128).name
    except ValueError:
        return f"the command ended with status {status}"
    # A shell's way to say it: 137 is 128 + SIGKILL.
    return f"the command ended with status {status}, as after {name}"
