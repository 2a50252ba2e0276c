# SPDX-License-Identifier: Apache-2.0
"""Reads git: tags that break the version of the project, by the same rules as `setup-env`."""

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Fault, Need, problem
from ci_doctor.checks.checkout.project_version import read_project_version
from ci_doctor.checks.checkout.rules import VERSION_TAG
from ci_doctor.checks.context import CheckContext
from ci_doctor.environment import rules
from ci_doctor.model.evaluation import EVALUATION
from ci_doctor.model.finding import Severity, ShellCommand

_ABOUT_TAGS = frozenset({rules.UNPARSABLE_TAG.id, rules.SUSPICIOUS_TAG.id})


def _run(context: CheckContext) -> CheckResult:
    version = context.shared(read_project_version)
    if version is None:
        return CheckResult(summary="no Python project here")
    problems = []
    for finding in version.findings:
        # A tag that no build picks is a note of setup-env's.
        if finding.rule in _ABOUT_TAGS and finding.severity is Severity.WARNING:
            each = problem(
                VERSION_TAG,
                finding.summary,
                evidence=finding.evidence,
                remedy=ShellCommand(EVALUATION),
                fault=Fault.REPOSITORY,
            )
            problems.append(each)
    return CheckResult(summary=version.reason, problems=tuple(problems))


CHECK = DoctorCheck(
    id="checkout/version-tags",
    title="tags that break the project's version",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
