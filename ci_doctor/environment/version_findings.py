# SPDX-License-Identifier: Apache-2.0
"""What a described checkout means for the pin of its project: findings, and whether there is a version at all."""

import fnmatch
import json

from msgspec import Struct

from ci_doctor.environment.backends import Backend
from ci_doctor.environment.project import Project
from ci_doctor.environment.tags import Described, tag_family
from ci_doctor.model.finding import Evidence, Finding, Severity

_NAMED = 10  # tags listed by name in one sentence


class ComputedVersion(Struct, frozen=True, kw_only=True):
    """A project's version: `version` is None where there is none to pin, and `findings` say why.

    `described` is what git says, None where git was not asked.
    """

    project: Project
    version: str | None
    findings: tuple[Finding, ...] = ()
    described: Described | None = None

    @property
    def offending(self) -> tuple[str, ...]:
        """The unparsable tags that were left out."""
        return self.described.unparsable if self.described else ()


def judge(project: Project, described: Described, *, allow_fallback: bool) -> tuple[Finding, ...]:
    """What is worth saying about a described checkout; an error means that its version is not to be pinned."""
    found = (
        _not_pep440(project, described),
        _from_files(project, described),
        _unparsable(project, described),
        _suspicious(project, described),
        _shallow(described, allow_fallback=allow_fallback),
        _no_usable_tag(project, described),
        _dirty(project, described),
    )
    return tuple(finding for finding in found if finding is not None)


def is_pep440(version: str) -> bool:
    """Whether `version` is valid (https://packaging.python.org/en/latest/specifications/version-specifiers/)."""
    from packaging.version import InvalidVersion, Version

    try:
        Version(version)
    except InvalidVersion:
        return False
    return True


def unsupported(project: Project) -> Finding:
    """A backend that is only named, with what would help."""
    return Finding(
        rule="version/unsupported-backend",
        severity=Severity.WARNING,
        summary=f"{project.label} takes its version from {project.tool}, which is not pinned here",
        remedy=project.advice,
    )


def _not_pep440(project: Project, described: Described) -> Finding | None:
    if is_pep440(described.version):
        return None
    return Finding(
        rule="version/invalid-pin",
        severity=Severity.ERROR,
        summary=f"{project.tool} makes {described.version!r} of {project.label}, which is not a valid PEP 440 version",
        remedy="correct version_scheme and local_scheme",
    )


def _from_files(project: Project, described: Described) -> Finding | None:
    if described.repository is not None:
        return None
    return Finding(
        rule="version/not-from-git",
        severity=Severity.NOTE,
        summary=f"{project.directory} is not a git repository: version {described.version} of {project.label} comes from its files",
    )


def _unparsable(project: Project, described: Described) -> Finding | None:
    names = described.unparsable
    if not names:
        return None
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = ", ".join(repr(name) for name in names[:_NAMED])
    effect = (
        f"{project.backend} would take {described.breaks_on!r} for one"
        if described.breaks_on is not None
        else "nearer tags keep them from being picked"
    )
    return Finding(
        rule="version/unparsable-tag",
        severity=Severity.WARNING if described.breaks_on is not None else Severity.NOTE,
        summary=f"tags of {project.label} that are no versions were left out: {listed}{more}; without a pin, {effect}",
        evidence=tuple(Evidence(excerpt=f"refs/tags/{name}") for name in names),
        remedy=_tag_remedy(project, described),
    )


def _tag_remedy(project: Project, described: Described) -> str:
    """Settings that let `git describe` see release tags only; they work with every setuptools-scm since 7.1."""
    glob = f"{tag_family(described.tag) if described.tag and described.suspicious is None else 'v'}[0-9]*.*"
    if project.backend is Backend.PDM:
        return f'[tool.pdm.version]\ntag_filter = "{glob}"'
    still = [
        f"--exclude={name}" for name in described.unparsable if fnmatch.fnmatchcase(name, glob)
    ]
    command = ["git", "describe", "--dirty", "--tags", "--long", "--match", glob, *still[:_NAMED]]
    if project.backend is Backend.SETUPTOOLS_SCM and not project.reads_pyproject:
        return f"get_version(git_describe_command={command!r})  # in setup.py"
    table = (
        "tool.hatch.version.raw-options"
        if project.backend is Backend.HATCH_VCS
        else "tool.setuptools_scm"
    )
    return f"[{table}]\ngit_describe_command = {json.dumps(command, ensure_ascii=False)}"


def _suspicious(project: Project, described: Described) -> Finding | None:
    if described.suspicious is None:
        return None
    return Finding(
        rule="version/suspicious-tag",
        severity=Severity.WARNING,
        summary=(
            f"{project.tool} reads the tag {described.tag!r} as version {described.suspicious}, "
            f"and makes {described.version} of {project.label}"
        ),
        remedy=_tag_remedy(project, described),
    )


def _shallow(described: Described, *, allow_fallback: bool) -> Finding | None:
    if not described.shallow or (described.tag is not None and described.distance == 0):
        return None
    end = "is used, as --allow-fallback asks" if allow_fallback else "is refused"
    return Finding(
        rule="version/shallow-clone",
        severity=Severity.WARNING if allow_fallback else Severity.ERROR,
        summary=(
            f"{described.repository} is a shallow clone and its HEAD has no version tag: "
            f"{described.version} rests on a cut history and {end}"
        ),
        remedy="git fetch --unshallow --tags",
    )


def _no_usable_tag(project: Project, described: Described) -> Finding | None:
    if described.tag is not None or described.repository is None or described.shallow:
        return None
    return Finding(
        rule="version/no-usable-tag",
        severity=Severity.WARNING,
        summary=f"no tag reachable from HEAD is a version of {project.label}: {project.tool} makes {described.version} of it",
        remedy="git fetch --tags",
    )


def _dirty(project: Project, described: Described) -> Finding | None:
    if not described.dirty:
        return None
    return Finding(
        rule="version/dirty-tree",
        severity=Severity.WARNING,
        summary=f"the working tree of {project.label} has uncommitted changes, which its version {described.version} may show",
        evidence=(Evidence(excerpt="git status --porcelain --untracked-files=no"),),
        remedy="git stash  # or commit them, before the version is pinned",
    )
