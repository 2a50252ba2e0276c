# SPDX-License-Identifier: Apache-2.0
"""Pure. The closed set of things that a command can conclude, with what each means to a pipeline."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ci_doctor.model.exit_code import ExitCode


class Meaning(Struct, frozen=True):
    """`meaning` and `remedy` are sentences for a reader who sees the word for the first time."""

    meaning: str
    remedy: str


class Verdict(StrEnum):
    """What the evidence proves.

    docs/design.md defines the words, docs/exit-codes.md what a pipeline does with each.
    """

    PASS = "pass"  # noqa: S105
    REGRESSION = "regression"  # a baseline proves it
    FAILED = "failed"  # nothing was compared: nobody knows whether it is the change's fault
    FLAKY = "flaky"
    NONDETERMINISTIC = "nondeterministic"
    INFRA = "infra"
    INCONCLUSIVE = "inconclusive"
    VOID = "void"


# Before a repository's own `[exit-codes]`. `flaky` has its code only under `--fail-on-flaky`;
# without it, it passes.
EXIT_CODES: dict[Verdict, ExitCode] = {
    Verdict.PASS: ExitCode.PASS,
    Verdict.REGRESSION: ExitCode.FAILURE,
    Verdict.FAILED: ExitCode.FAILURE,
    Verdict.FLAKY: ExitCode.FLAKY,
    Verdict.NONDETERMINISTIC: ExitCode.NONDETERMINISTIC,
    Verdict.INFRA: ExitCode.INFRA,
    Verdict.INCONCLUSIVE: ExitCode.UNDECIDED,
    Verdict.VOID: ExitCode.UNDECIDED,
}

# Stands for a report without a verdict (a usage error, a bug, a signal), and for a job that was
# cancelled or never came to its command.
NO_VERDICT = "error"
MISSING = (
    "missing"  # of a job of a build without any report: nothing is proven, as with an empty one
)
# The most urgent one first: it stands for all reports of a job, and for all attempts of a build.
WORST_FIRST: tuple[str, ...] = (
    Verdict.REGRESSION,
    Verdict.FAILED,
    NO_VERDICT,
    MISSING,
    Verdict.VOID,
    Verdict.INCONCLUSIVE,
    Verdict.INFRA,
    Verdict.NONDETERMINISTIC,
    Verdict.FLAKY,
    Verdict.PASS,
)
# What a job of a build has beside a verdict. Both say less of the change than any verdict but a green one.
CANCELLED: Final = "cancelled"
SOFT_FAILED: Final = "soft-failed"
_RANKS: Final = {
    word: rank
    for rank, word in enumerate((*WORST_FIRST[:-2], CANCELLED, SOFT_FAILED, *WORST_FIRST[-2:]))
}
_GREEN: Final = frozenset({Verdict.PASS, Verdict.FLAKY})


def is_green(word: str | None) -> bool:
    """Whether what ended with this verdict lets a pipeline go on."""
    return word in _GREEN


def rank(word: str) -> int:
    """0 for the worst. A word that this version does not know is as bad as no verdict."""
    return _RANKS.get(word, _RANKS[NO_VERDICT])


def worst(words: Iterable[str]) -> str:
    """The worst of `words`; `void` without any."""
    return min(words, key=rank, default=str(Verdict.VOID))


def ordered(words: Iterable[str]) -> list[str]:
    """Each of `words` once, the worst first."""
    return sorted(set(words), key=lambda word: (rank(word), word))


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
