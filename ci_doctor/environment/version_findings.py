# SPDX-License-Identifier: Apache-2.0
"""Pure. What a described checkout means for the pin of its project."""

import fnmatch
import shlex

from msgspec import Struct

from ci_doctor.environment import rules
from ci_doctor.environment.project import Project
from ci_doctor.environment.tags import Described, TagGap, TagGapKind, tag_family
from ci_doctor.model.finding import Evidence, Finding, NextStep, Severity, ShellCommand

# Tags listed by name in one sentence. A remedy must fit a command line, too.
_NAMED = 10


class ComputedVersion(Struct, frozen=True, kw_only=True):
    """A project's version; `version` is None if there is none to pin, and `findings` tell why.

    `described` is the checkout as git describes it, None if git was not needed.
    """

    project: Project
    version: str | None
    findings: tuple[Finding, ...] = ()
    described: Described | None = None

    @property
    def is_uncertain(self) -> bool:
        """Whether a full clone may have another version."""
        return self.described is not None and (
            self.described.shallow or self.described.gap is not None
        )


def judged(project: Project, described: Described, *, allow_fallback: bool) -> ComputedVersion:
    """The version of a described checkout with its findings; none to pin after an error."""
    findings = judge(project, described, allow_fallback=allow_fallback)
    refused = any(finding.severity is Severity.ERROR for finding in findings)
    version = None if refused else described.version
    return ComputedVersion(project=project, version=version, findings=findings, described=described)


def judge(project: Project, described: Described, *, allow_fallback: bool) -> tuple[Finding, ...]:
    """The findings of a described checkout; after an error its version is not to be pinned."""
    possible = (
        _invalid(project, described),
        _unparsable(project, described),
        _suspicious(project, described),
        _incomplete(project, described, allow_fallback=allow_fallback),
        _no_usable_tag(project, described),
        _dirty(project, described),
    )
    return tuple(finding for finding in possible if finding is not None)


def is_pep440(version: str) -> bool:
    """Whether `version` is valid by the version specifiers of PyPA (PEP 440)."""
    from packaging.version import InvalidVersion, Version

    try:
        Version(version)
    except InvalidVersion:
        return False
    return True


def _invalid(project: Project, described: Described) -> Finding | None:
    """A version that no build accepts, or one that comes from files."""
    if not is_pep440(described.version):
        return rules.INVALID_PIN.finding(
            (
                f"{project.tool} computes {described.version!r} for {project.label}, "
                "which is not a valid PEP 440 version"
            ),
            remedy=rules.INVALID_PIN.remedy,
        )
    if described.repository is None:
        return rules.NOT_FROM_GIT.finding(
            f"{project.directory} is not a git repository: "
            f"version {described.version} of {project.label} comes from its files"
        )
    return None


def _unparsable(project: Project, described: Described) -> Finding | None:
    names = described.unparsable
    if not names or project.source is None:
        return None
    listed = ", ".join(repr(name) for name in names[:_NAMED])
    if len(names) > _NAMED:
        listed += f" and {len(names) - _NAMED} more"
    severity = Severity.NOTE
    effect = "nearer tags keep them from being picked"
    if described.breaks_on is not None:
        severity = Severity.WARNING
        effect = f"{project.source.name} would read {described.breaks_on!r} as one"
    return rules.UNPARSABLE_TAG.finding(
        severity=severity,
        summary=(
            f"tags of {project.label} that are not versions were left out: {listed}; "
            f"without a pin, {effect}"
        ),
        evidence=tuple(Evidence(excerpt=f"refs/tags/{name}") for name in names),
        remedy=_tag_remedy(project, described),
    )


def _tag_remedy(project: Project, described: Described) -> str:
    """Settings with which `git describe` considers release tags only."""
    # A tag that was read oddly shows nothing about how releases are named.
    trusted = described.tag if described.suspicious is None else None
    family = tag_family(trusted) if trusted else "v"
    glob = f"{family}[0-9]*.*"
    excluded = [name for name in described.unparsable if fnmatch.fnmatchcase(name, glob)]
    return project.tag_setting(glob, excluded[:_NAMED])


def _suspicious(project: Project, described: Described) -> Finding | None:
    if described.suspicious is None or project.source is None:
        return None
    return rules.SUSPICIOUS_TAG.finding(
        (
            f"{project.tool} reads the tag {described.tag!r} as version {described.suspicious}, "
            f"and computes {described.version} for {project.label}"
        ),
        remedy=_tag_remedy(project, described),
    )


def _incomplete(project: Project, described: Described, *, allow_fallback: bool) -> Finding | None:
    """A clone whose cut history, or whose tags, may give another version than a full clone."""
    severity = Severity.WARNING if allow_fallback else Severity.ERROR
    end = "is used because of --allow-fallback" if allow_fallback else "is refused"
    if described.shallow:
        return rules.SHALLOW_CLONE.finding(
            severity=severity,
            summary=(
                f"{described.repository} is a shallow clone whose history does not reach a version tag: "
                f"{described.version} is computed from an incomplete history and {end}"
            ),
            remedy=ShellCommand("git fetch --unshallow --tags"),
        )
    if described.gap is None:
        return None
    difference, remedy = _difference(described.gap, str(described.repository))
    return rules.MISSING_TAGS.finding(
        severity=severity,
        summary=(
            f"{difference}: {described.version}, "
            f"which {project.tool} computes for {project.label}, {end}"
        ),
        remedy=remedy,
    )


def _difference(gap: TagGap, place: str) -> tuple[str, NextStep]:
    """The difference in words, and what makes the tags that decide the same here and there."""
    remote, tag = gap.remote, gap.tag
    quoted = shlex.quote(remote)
    match gap.kind:
        case TagGapKind.ABSENT:
            return (
                f"{place} lacks the tag {tag!r}, which its remote {remote} has on this history",
                ShellCommand(f"git fetch --tags {quoted}"),
            )
        case TagGapKind.MOVED:
            return (
                f"the tag {tag!r} of {place} is on another commit than that of its remote {remote}",
                ShellCommand(f"git fetch --tags --force {quoted}"),
            )
        case TagGapKind.LOCAL:
            return (
                f"{place} has the tag {tag!r}, and its remote {remote} has no such tag",
                ShellCommand(f"git tag --delete {shlex.quote(tag)}"),
            )
        case TagGapKind.SILENT:
            return (
                f"the remote {remote} of {place} does not answer, and may have other tags",
                (
                    f"see what `git ls-remote --tags {quoted}` says, and give this job access to the "
                    "remote; or accept the version with `--allow-fallback`"
                ),
            )
        case TagGapKind.UNREADABLE:
            return (
                f"git refuses to read {place}, so the tags of its remote are not known",
                ShellCommand(f"git config --global --add safe.directory {shlex.quote(place)}"),
            )


def _no_usable_tag(project: Project, described: Described) -> Finding | None:
    is_known = described.tag is not None or described.repository is None
    if is_known or described.shallow or described.gap is not None:
        return None
    if described.unreleased is not None:
        return rules.NO_USABLE_TAG.finding(
            severity=Severity.NOTE,
            summary=(
                f"neither this clone nor its remote {described.unreleased} has a tag of a release: "
                f"{project.tool} computes {described.version} for {project.label}"
            ),
            remedy="nothing, until the first release is tagged",
        )
    return rules.NO_USABLE_TAG.finding(
        (
            f"no tag reachable from HEAD is a version of {project.label}: "
            f"{project.tool} computes {described.version}"
        ),
        remedy="tag a release on this history, or check out the commit that has one behind it",
    )


def _dirty(project: Project, described: Described) -> Finding | None:
    if not described.dirty:
        return None
    return rules.DIRTY_TREE.finding(
        (
            f"the working tree of {project.label} has uncommitted changes, "
            f"and its version {described.version} may show them"
        ),
        evidence=(Evidence(excerpt="git status --porcelain --untracked-files=no"),),
        remedy=ShellCommand("git stash  # or commit them, before the version is pinned"),
    )
