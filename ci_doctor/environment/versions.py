# SPDX-License-Identifier: Apache-2.0
"""Acts on git, by reading: the version that a project's backend would compute if its unparsable tags did not exist."""

import shutil
from typing import assert_never

from ci_doctor.environment.backends import Backend
from ci_doctor.environment.not_computable import NotComputable
from ci_doctor.environment.project import Project
from ci_doctor.environment.tags import Described
from ci_doctor.environment.version_findings import ComputedVersion, judge, unsupported
from ci_doctor.errors import UsageError
from ci_doctor.model.finding import Severity


def compute_version(project: Project, *, allow_fallback: bool) -> ComputedVersion:
    """Compute the version of `project`; `allow_fallback` accepts a shallow clone whose HEAD is not tagged.

    Raises UsageError where git is needed and missing. All else that stands in the way is a finding.
    """
    match project.backend:
        case Backend.FIXED:
            return ComputedVersion(project=project, version=project.version)
        case Backend.UNSUPPORTED:
            return ComputedVersion(project=project, version=None, findings=(unsupported(project),))
        case Backend.SETUPTOOLS_SCM | Backend.HATCH_VCS | Backend.PDM:
            return _compute(project, allow_fallback=allow_fallback)
        case _ as never:
            assert_never(never)


def _compute(project: Project, *, allow_fallback: bool) -> ComputedVersion:
    if shutil.which("git") is None:
        raise UsageError(
            f"no git on PATH, and {project.label} takes its version from git ({project.tool})",
            hint="install git in this job's image",
        )
    try:
        described = _describe(project)
    except NotComputable as reason:
        return ComputedVersion(project=project, version=None, findings=(reason.finding,))
    findings = judge(project, described, allow_fallback=allow_fallback)
    refused = any(finding.severity is Severity.ERROR for finding in findings)
    return ComputedVersion(
        project=project,
        version=None if refused else described.version,
        findings=findings,
        described=described,
    )


def _describe(project: Project) -> Described:
    if project.unreadable:
        raise NotComputable(
            "version/setup-script",
            Severity.WARNING,
            f"setup.py of {project.label} gives setuptools-scm options that only running it can tell: {', '.join(project.unreadable)}",
            remedy="move the options to [tool.setuptools_scm] in pyproject.toml, or set the version by hand",
        )
    if project.backend is not Backend.PDM:
        from ci_doctor.environment import scm_library

        return scm_library.describe(project)
    try:
        from ci_doctor.environment import pdm_library
    except ImportError as error:
        raise NotComputable(
            "version/backend-missing",
            Severity.WARNING,
            f"{project.label} is built by pdm-backend, which is not installed beside ci-doctor",
            remedy="pip install pdm-backend",
        ) from error
    return pdm_library.describe(project)
