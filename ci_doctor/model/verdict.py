# SPDX-License-Identifier: Apache-2.0
"""The closed set of things that a command can conclude."""

from enum import StrEnum
from typing import assert_never

from ci_doctor.model.exit_code import ExitCode


class Verdict(StrEnum):
    """What the evidence says; docs/design.md has the words, docs/exit-codes.md what a pipeline does with each."""

    PASS = "pass"  # noqa: S105
    REGRESSION = "regression"
    FLAKY = "flaky"
    NONDETERMINISTIC = "nondeterministic"
    INFRA = "infra"
    INCONCLUSIVE = "inconclusive"
    VOID = "void"


def exit_code(verdict: Verdict, *, fail_on_flaky: bool = False) -> ExitCode:
    """The exit code of a verdict, before a repository's own `[exit-codes]` are applied."""
    match verdict:
        case Verdict.PASS:
            return ExitCode.PASS
        case Verdict.FLAKY:
            return ExitCode.FLAKY if fail_on_flaky else ExitCode.PASS
        case Verdict.REGRESSION:
            return ExitCode.FAILURE
        case Verdict.INFRA:
            return ExitCode.INFRA
        case Verdict.NONDETERMINISTIC:
            return ExitCode.NONDETERMINISTIC
        case Verdict.INCONCLUSIVE | Verdict.VOID:
            return ExitCode.UNDECIDED
        case _ as never:
            assert_never(never)
