# SPDX-License-Identifier: Apache-2.0
"""From an outcome to an exit code. Pure."""

from collections.abc import Mapping
from typing import assert_never

from msgspec import Struct

from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import ErrorKind, Outcome
from ci_doctor.model.verdict import EXIT_CODES, Verdict


class ExitPolicy(Struct, frozen=True, kw_only=True):
    """What a repository and a command line make of verdicts.

    `codes` are the repository's own by verdict; a missing one is ci-doctor's. `let_through` are
    verdicts that end with 0. `unjudged_as`: the verdict whose code ends a command that judges
    nothing, on request; None for 0.
    """

    codes: Mapping[str, int] = {}
    fail_on_flaky: bool = False
    let_through: frozenset[Verdict] = frozenset()
    unjudged_as: Verdict | None = None


def exit_code(outcome: Outcome, policy: ExitPolicy) -> int:
    """The exit code of a command that ends with `outcome`.

    The status of a command that the user gave comes first, unless it is 0. Then the verdict decides,
    and without one the error. Nothing judged and no error is 0, if the policy says nothing else.
    """
    if outcome.command_status:
        return outcome.command_status
    if outcome.verdict is not None:
        return _of_verdict(outcome.verdict, policy)
    if outcome.error is not None:
        return int(_of_error(outcome.error.kind))
    if policy.unjudged_as is not None:
        return _of_verdict(policy.unjudged_as, policy)
    return int(ExitCode.PASS)


def _of_verdict(verdict: Verdict, policy: ExitPolicy) -> int:
    passes = verdict is Verdict.PASS or verdict in policy.let_through
    is_tolerated = verdict is Verdict.FLAKY and not policy.fail_on_flaky
    if passes or is_tolerated:
        return int(ExitCode.PASS)
    default = int(EXIT_CODES[verdict])
    return policy.codes.get(verdict.value, default)


def _of_error(kind: ErrorKind | None) -> ExitCode:
    match kind:
        case ErrorKind.USAGE:
            return ExitCode.USAGE
        # An error of no kind is one that nobody foresaw.
        case ErrorKind.BUG | None:
            return ExitCode.BUG
        case ErrorKind.PREPARATION:
            return ExitCode.FAILURE
        case ErrorKind.INFRA:
            return ExitCode.INFRA
        case ErrorKind.SIGINT:
            return ExitCode.SIGINT
        # These have no exit code of their own; all ask for an end as SIGTERM does.
        case ErrorKind.SIGTERM | ErrorKind.SIGHUP | ErrorKind.SIGQUIT:
            return ExitCode.SIGTERM
        case _ as never:
            assert_never(never)
