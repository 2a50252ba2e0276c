# SPDX-License-Identifier: Apache-2.0
"""Reads git: submodules that are not checked out, or not at their commit."""

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, UndeterminedError, problem
from ci_doctor.checks.checkout.git_reading import read_place, run_git
from ci_doctor.checks.checkout.rules import SUBMODULES
from ci_doctor.checks.context import CheckContext
from ci_doctor.model.finding import Evidence, Severity, ShellCommand

# The first character of a line (git-submodule(1), status).
_ABSENT = "not checked out"
_STATES = {"-": _ABSENT, "+": "at another commit", "U": "in a merge conflict"}


def _run(context: CheckContext) -> CheckResult:
    place = context.shared(read_place)
    if not (place.top / ".gitmodules").exists():
        return CheckResult(summary="no submodules")
    ran = run_git(context, "-C", str(place.top), "submodule", "status")
    if ran.exit_code != 0:
        raise UndeterminedError(f"git submodule status: {ran.last_words}")
    lines = ran.stdout.splitlines()
    bad = []
    for line in lines:
        state = _STATES.get(line[:1])
        if state is not None:
            # The path, and after it what describes the commit, if that is known.
            path = line[1:].split(" ", 1)[1].rpartition(" (")[0] or line[1:].split(" ", 1)[1]
            bad.append(f"{path} is {state}")
    if not bad:
        return CheckResult(summary=f"submodules at their commits: {len(lines)}")
    summary = bad[0]
    if len(bad) > 1:
        summary += f", and {len(bad) - 1} more submodules"
    # The checkout of Buildkite's agent obeys it.
    is_wanted = context.environ.get("BUILDKITE_GIT_SUBMODULES", "") != "false"
    is_absent_alone = all(words.endswith(_ABSENT) for words in bad)
    severity = Severity.WARNING if is_wanted or not is_absent_alone else Severity.NOTE
    fault = problem(
        SUBMODULES,
        f"the submodule {summary}",
        evidence=(Evidence(excerpt="\n".join(bad[:10])),),
        remedy=ShellCommand("git submodule update --init --recursive"),
        severity=severity,
    )
    return CheckResult(summary=f"{len(bad)} of {len(lines)} not as committed", problems=(fault,))


CHECK = DoctorCheck(
    id="checkout/submodules",
    title="submodules",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
