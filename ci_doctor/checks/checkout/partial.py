# SPDX-License-Identifier: Apache-2.0
"""Reads git's configuration: whether the checkout leaves files or objects out."""

from collections.abc import Mapping

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, problem
from ci_doctor.checks.checkout.git_reading import read_git_config
from ci_doctor.checks.checkout.rules import PARTIAL_CHECKOUT
from ci_doctor.checks.context import CheckContext
from ci_doctor.model.finding import ShellCommand

# git-config(1), Boolean values; an empty value is none that git writes here.
TRUE = frozenset({"true", "yes", "on", "1"})


def _run(context: CheckContext) -> CheckResult:
    config = context.shared(read_git_config)
    problems = []
    if config.get("core.sparsecheckout", "").lower() in TRUE:
        words = "a sparse checkout: some files of the commit are left out"
        remedy = ShellCommand("git sparse-checkout disable")
        problems.append(problem(PARTIAL_CHECKOUT, words, remedy=remedy))
    if _is_partial(config):
        words = "a partial clone: objects that are missing are fetched when they are needed"
        advice = (
            "clone it without `--filter`. `git fetch --refetch --no-filter` fetches what is missing now, "
            "and the clone stays a partial one"
        )
        problems.append(problem(PARTIAL_CHECKOUT, words, remedy=advice))
    if not problems:
        return CheckResult(summary="neither sparse nor partial")
    summary = "; ".join(each.finding.summary for each in problems)
    return CheckResult(summary=summary, problems=tuple(problems))


def _is_partial(config: Mapping[str, str]) -> bool:
    for name, value in config.items():
        if name.startswith("remote.") and name.endswith(".promisor") and value.lower() in TRUE:
            return True
    return False


CHECK = DoctorCheck(
    id="checkout/partial",
    title="sparse checkout, partial clone",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
