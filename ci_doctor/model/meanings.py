# SPDX-License-Identifier: Apache-2.0
"""Pure. What each verdict and exit code means to a pipeline; docs/exit-codes.md has the same."""

from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.meaning import Meaning
from ci_doctor.model.verdict import Verdict

VERDICTS: dict[Verdict, Meaning] = {
    Verdict.PASS: Meaning("Everything was answered, and all of it is the same.", "Nothing."),
    Verdict.REGRESSION: Meaning(
        "The change is at fault: a baseline proves it.",
        "Mend the change. Never retry it until it is green.",
    ),
    Verdict.FAILED: Meaning(
        "Something failed, and nothing was compared: nobody knows whether the change is at fault.",
        "See what is named, and whether the same fails without the change.",
    ),
    Verdict.FLAKY: Meaning(
        "The baseline differs from itself; the candidate adds nothing of its own.",
        "The change may go in; `--fail-on-flaky` makes it a failure (7).",
    ),
    Verdict.NONDETERMINISTIC: Meaning(
        "The environment never repeats itself where it matters.",
        "`soft_fail: [{exit_status: 85}]`, and find out why.",
    ),
    Verdict.INFRA: Meaning(
        "The evidence could not be gathered, for a reason outside the change.",
        "`retry: {automatic: [{exit_status: 75}]}`.",
    ),
    Verdict.INCONCLUSIVE: Meaning(
        "The evidence is not enough.",
        "Run the proposed command: more time (`--budget`), or more starts (`--max-starts`).",
    ),
    Verdict.VOID: Meaning(
        "The evidence is empty, or proves nothing.",
        "See what is missing. It fails closed on purpose.",
    ),
}

EXIT_CODE_MEANINGS: dict[ExitCode, Meaning] = {
    ExitCode.PASS: Meaning("`pass`; `flaky` unless `--fail-on-flaky`.", "Nothing."),
    ExitCode.FAILURE: Meaning("`regression` or `failed`.", "Mend what is named. Never retried."),
    ExitCode.USAGE: Meaning(
        "The command line or the configuration is wrong. Nothing was started, or a command cannot run as it "
        "is written.",
        "Do what the hint says.",
    ),
    ExitCode.FLAKY: Meaning(
        "`flaky` under `--fail-on-flaky` (pytest-rerunfailures' own code).",
        "See the clusters of starts.",
    ),
    ExitCode.BUG: Meaning(
        "A bug in ci-doctor: it says nothing about the job.",
        "Report it, with the text that was printed.",
    ),
    ExitCode.INFRA: Meaning(
        "`infra`: the evidence could not be gathered, for a reason outside the change "
        "(sysexits EX_TEMPFAIL).",
        "`retry: {automatic: [{exit_status: 75, limit: 2}]}`.",
    ),
    ExitCode.NONDETERMINISTIC: Meaning(
        "`nondeterministic`: the environment differs from itself.",
        "`soft_fail: [{exit_status: 85}]`.",
    ),
    ExitCode.UNDECIDED: Meaning(
        "`inconclusive` or `void`: the evidence is not enough, or is empty.",
        "It fails closed. See what is missing.",
    ),
    ExitCode.SIGINT: Meaning(
        "SIGINT: the whole process tree was stopped first, and the report written.", "Run it again."
    ),
    ExitCode.SIGTERM: Meaning(
        "SIGTERM: the whole process tree was stopped first, and the report written.",
        "Run it again.",
    ),
}
