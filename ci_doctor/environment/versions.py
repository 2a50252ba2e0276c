# SPDX-License-Identifier: Apache-2.0
"""Reads git: the version that a project's backend would compute without its unparsable tags."""

import shutil
from functools import partial

from ci_doctor.environment import rules
from ci_doctor.environment.clone_history import with_clone_limits
from ci_doctor.environment.not_computable import BackendMissing, NotComputable
from ci_doctor.environment.project import Project, VersionSource
from ci_doctor.environment.tags import Described
from ci_doctor.environment.version_findings import ComputedVersion, judge, unsupported
from ci_doctor.errors import UsageError
from ci_doctor.model.finding import Severity


def compute_version(project: Project, *, allow_fallback: bool) -> ComputedVersion:
    """Compute the version of `project`; `allow_fallback` accepts an untagged shallow clone.

    Raises UsageError if git or the library of the project's build backend is needed and missing.
    Every other obstacle is a finding.
    """
    if project.is_fixed:
        return ComputedVersion(project=project, version=project.version)
    if project.source is None:
        return ComputedVersion(project=project, version=None, findings=(unsupported(project),))
    if shutil.which("git") is None:
        raise UsageError(
            f"no git on PATH, and {project.label} takes its version from git ({project.tool})",
            hint="install git in this job's image",
        )
    try:
        described = _describe(project, project.source)
        described = with_clone_limits(
            project.directory, described, read_names=partial(project.source.read_names, project)
        )
    except BackendMissing as reason:
        raise UsageError(str(reason), hint=reason.remedy) from reason
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


def describe_locally(project: Project, source: VersionSource) -> Described:
    """The checkout of `project` as its tool describes it, as far as the clone itself shows.

    No remote is asked. Raises NotComputable.
    """
    described = _describe(project, source)
    return with_clone_limits(project.directory, described, asks_remote=False)


def _describe(project: Project, source: VersionSource) -> Described:
    if project.unreadable:
        options = ", ".join(project.unreadable)
        raise NotComputable(
            rules.SETUP_SCRIPT,
            f"setup.py of {project.label} computes options of setuptools-scm: {options}",
        )
    return source.describe(project)
