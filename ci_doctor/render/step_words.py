# SPDX-License-Identifier: Apache-2.0
"""Pure. What each ending of a step is called on the build's page, and what to do about it."""

import signal
from typing import NamedTuple

from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.verdict import NO_VERDICT, Verdict
from ci_doctor.render.headline import Tone


class StepHeadline(NamedTuple):
    """The first words about a step, their mark and their colour."""

    symbol: str
    words: str
    tone: Tone


_HEADLINES: dict[str, StepHeadline] = {
    Verdict.PASS: StepHeadline("✓", "Passed", Tone.SUCCESS),
    Verdict.FLAKY: StepHeadline(
        "~", "Flaky: the baseline differs from itself, and the change adds nothing", Tone.WARNING
    ),
    Verdict.REGRESSION: StepHeadline(
        "✗", "Regression: the change is at fault, a baseline proves it", Tone.ERROR
    ),
    Verdict.FAILED: StepHeadline("✗", "Failed", Tone.ERROR),
    Verdict.NONDETERMINISTIC: StepHeadline(
        "≠", "Nondeterministic: the environment differs from itself", Tone.WARNING
    ),
    Verdict.INFRA: StepHeadline(
        "!", "Infrastructure: the cause lies outside the change", Tone.WARNING
    ),
    Verdict.INCONCLUSIVE: StepHeadline(
        "?", "Inconclusive: the evidence is not enough for a verdict", Tone.ERROR
    ),
    Verdict.VOID: StepHeadline("∅", "Void: nothing is proven, there is no evidence", Tone.ERROR),
    NO_VERDICT: StepHeadline(
        "✗", "No verdict: the job ended before anything was judged", Tone.ERROR
    ),
}
_NEXT = {
    Verdict.REGRESSION: "Mend the change. Another run only hides it.",
    Verdict.FAILED: "Read the log of the job. If the option `diagnose` of the plugin names the "
    "logs of the command, their cause stands here.",
    Verdict.FLAKY: "The change may go in. `--fail-on-flaky` makes this a failure.",
    Verdict.NONDETERMINISTIC: "Find out what differs from run to run; "
    "`soft_fail` with `exit_status: 85` lets the build go on meanwhile.",
    Verdict.INFRA: "Run the job again. `retry.automatic` with `exit_status: 75` does so by itself.",
    Verdict.INCONCLUSIVE: "Gather more evidence: raise `--retries` and `--budget`.",
    Verdict.VOID: "See what is missing. No evidence counts as no pass.",
}


def step_headline(record: JobRecord, *, is_judged: bool) -> StepHeadline:
    """The first words about the job of `record`."""
    if record.is_timed_out:
        return StepHeadline("✗", "Timed out: the job reached its time limit", Tone.ERROR)
    if record.is_cancelled:
        return StepHeadline("–", "Cancelled: the job was stopped before its end", Tone.WARNING)
    if passed_without_evidence(record, is_judged=is_judged):
        return _HEADLINES[Verdict.PASS]
    headline = _HEADLINES.get(record.verdict, _HEADLINES[NO_VERDICT])
    if record.verdict == Verdict.FAILED and record.command_status:
        ending = _ending(record.command_status)
        return headline._replace(words=f"Failed: {ending}")
    return headline


def passed_without_evidence(record: JobRecord, *, is_judged: bool) -> bool:
    """Whether the command ended well, and no report judges it (`is_judged`)."""
    is_stopped = record.is_cancelled or record.is_timed_out
    return not is_judged and not is_stopped and record.command_status == 0


def next_step(verdict: str) -> str | None:
    """What to do if no cause is named; None if there is nothing to add."""
    return _NEXT.get(Verdict(verdict)) if verdict in set(Verdict) else None


def _ending(status: int) -> str:
    if status == -1:
        return "a signal ended the command"
    try:
        name = signal.Signals(status - 128).name
    except ValueError:
        return f"the command ended with status {status}"
    # A shell's way to say it: 137 is 128 + SIGKILL.
    return f"the command ended with status {status}, as after {name}"
