# SPDX-License-Identifier: Apache-2.0
"""Pure. The closed set of things that a command can conclude, which of them are green, and which is worst."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from ci_doctor.model.exit_code import ExitCode


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
