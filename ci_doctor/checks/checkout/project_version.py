# SPDX-License-Identifier: Apache-2.0
"""Reads git and packaging files: how the project's version comes from tags, without a build."""

import shutil
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.checkout.git_reading import read_place
from ci_doctor.checks.context import CheckContext
from ci_doctor.environment.project import NotComputable, Project
from ci_doctor.environment.tags import Described
from ci_doctor.model.finding import Finding


class ProjectVersion(Struct, frozen=True, kw_only=True):
    """A project, and how its version is computed.

    `described` is None if it does not come from git, or if the environment pins it; `reason` says so.
    `findings` are those of setup-env.
    """

    project: Project
    reason: str
    described: Described | None = None
    findings: tuple[Finding, ...] = ()


def read_project_version(context: CheckContext) -> ProjectVersion | None:
    """The version of the project in the working directory; None if there is no project.

    For CheckContext.shared. Raises UndeterminedError if it cannot be computed, UsageError for
    packaging files that cannot be parsed.
    """
    from ci_doctor.environment.detection import read_project

    directory = _directory(context)
    if directory is None:
        return None
    project = read_project(directory)
    if project.source is None:
        reason = f"the version of {project.label} does not come from git"
        return ProjectVersion(project=project, reason=reason)
    variable = project.deciding_variable(context.environ)
    if variable is not None:
        reason = f"{variable} pins the version of {project.label}"
        return ProjectVersion(project=project, reason=reason)
    return _from_git(context, project)


def _from_git(context: CheckContext, project: Project) -> ProjectVersion:
    # Late: they load the tools of version control, which most checkouts do not need.
    from ci_doctor.environment.version_findings import judge
    from ci_doctor.environment.versions import describe_locally

    if shutil.which("git", path=context.environ.get("PATH")) is None:
        raise UndeterminedError("there is no git on PATH")
    try:
        described = describe_locally(project)
    except NotComputable as error:
        raise UndeterminedError(error.finding.summary) from error
    return ProjectVersion(
        project=project,
        reason=f"{project.tool} computes {described.version} for {project.label}",
        described=described,
        findings=judge(project, described, allow_fallback=True),
    )


def _directory(context: CheckContext) -> Path | None:
    from ci_doctor.environment.detection import has_project

    if has_project(context.cwd):
        return context.cwd
    top = context.shared(read_place).top
    if has_project(top):
        return top
    return None
