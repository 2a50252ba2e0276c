# SPDX-License-Identifier: Apache-2.0
"""Pure. What a described checkout means for the pin of its project, which variables pin which versions, and whose value wins."""

import fnmatch
import shlex
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_doctor.environment import rules
from ci_doctor.environment.project import Project
from ci_doctor.environment.tags import Described, TagGap, TagGapKind, tag_family
from ci_doctor.model.facts.diagnose import SetVariable
from ci_doctor.model.outcome import Evidence, Finding, NextStep, Severity, ShellCommand

# What a described checkout means for the pin of its project.

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
    """A version that no build accepts."""
    if not is_pep440(described.version):
        return rules.INVALID_PIN.finding(
            (
                f"{project.tool} computes {described.version!r} for {project.label}, "
                "which is not a valid PEP 440 version"
            ),
            remedy=rules.INVALID_PIN.remedy,
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
        effect = f"{project.source.name} would pick {described.breaks_on!r}, and fail or be misled"
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
    # The tool itself, which picks one of them, would not come to this version.
    without = "without the tags that are no versions " if described.breaks_on is not None else ""
    if described.unreleased is not None:
        return rules.NO_USABLE_TAG.finding(
            severity=Severity.NOTE,
            summary=(
                f"neither this clone nor its remote {described.unreleased} has a tag of a release: "
                f"{without}{project.tool} computes {described.version} for {project.label}"
            ),
        )
    return rules.NO_USABLE_TAG.finding(
        (
            f"no tag reachable from HEAD is a version of {project.label}: "
            f"{without}{project.tool} computes {described.version}"
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


# Which variables pin which versions, and whose value wins.


class Pins(Struct, frozen=True, kw_only=True):
    """What to export, the findings (the projects' own included), and one line per project.

    `variables` is empty if a finding reports that the pins contradict each other. `pinned` names
    the projects for which a version is exported, `uncertain` those of them with a version that
    --allow-fallback accepts.
    """

    variables: tuple[SetVariable, ...]
    findings: tuple[Finding, ...]
    lines: tuple[str, ...]
    pinned: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()


class _Decision(Struct, frozen=True, kw_only=True):
    """What becomes of one project; `decided`: the version is known and the build will see it.

    `commits` are the variables that say which commit the pinned version is.
    """

    project: Project
    variables: tuple[SetVariable, ...] = ()
    commits: tuple[SetVariable, ...] = ()
    findings: tuple[Finding, ...] = ()
    line: str
    decided: bool = True


def decide_pins(
    computed: Sequence[ComputedVersion], environ: Mapping[str, str], ours: Mapping[str, str]
) -> Pins:
    """Decide the variables for projects that share one environment.

    `ours` are values that an earlier run exported: a variable that still holds one is recomputed,
    any other value in `environ` belongs to a person or a pipeline and stays. Findings about a
    version that such a value decides are dropped.
    """
    foreign = {name: value for name, value in environ.items() if ours.get(name) != value}
    stale = environ.keys() - foreign.keys()
    decisions = [_decide(each, foreign, stale=stale) for each in computed]
    # Each variable and value once: projects that agree share one.
    variables = tuple(
        {(each.name, each.value): each for one in decisions for each in one.variables}.values()
    )
    findings = [finding for decision in decisions for finding in decision.findings]
    conflict = _conflict(decisions, variables)
    if conflict is not None:
        variables = ()
        findings.append(conflict)
    else:
        findings += _generic_note(decisions)
    return Pins(
        variables=(*variables, *(_agreed_commits(decisions) if variables else ())),
        findings=tuple(findings),
        lines=tuple(decision.line for decision in decisions),
        pinned=tuple(each.project.label for each in decisions if variables and each.variables),
        uncertain=tuple(each.project.label for each in computed if each.is_uncertain),
    )


def _agreed_commits(decisions: Sequence[_Decision]) -> tuple[SetVariable, ...]:
    """The commit of each version; none where two projects share a variable and differ in it."""
    by_name: dict[str, dict[str, SetVariable]] = {}
    for decision in decisions:
        for variable in decision.commits:
            by_name.setdefault(variable.name, {})[variable.value] = variable
    return tuple(
        each for values in by_name.values() if len(values) == 1 for each in values.values()
    )


def _decide(computed: ComputedVersion, foreign: Mapping[str, str], *, stale: set[str]) -> _Decision:
    project = computed.project
    version = computed.version
    findings = computed.findings
    if project.source is None:
        end = "nothing to pin" if project.is_fixed else "not pinned"
        line = f"{project.label} {version or 'unknown'} ({project.tool}; {end})"
        return _Decision(project=project, findings=findings, line=line)
    name = project.deciding_variable(foreign)
    if name is not None:
        return _already_set(computed, name, foreign[name], stale)
    if version is None:
        line = f"{project.label} not pinned ({project.tool})"
        return _Decision(project=project, findings=findings, line=line, decided=False)
    why = _why(computed)
    versions = dict.fromkeys(project.exported_variables, version)
    commits = project.commit_variables(computed.described) if computed.described else {}
    return _Decision(
        project=project,
        variables=_free_variables(versions, foreign, why),
        commits=_free_variables(commits, foreign, f"the commit of {version}"),
        findings=findings,
        line=f"{project.label} {version} ({why})",
    )


def _free_variables(
    values: Mapping[str, str], foreign: Mapping[str, str], why: str
) -> tuple[SetVariable, ...]:
    """Those of `values` that no person has set: a value that does not decide is left alone."""
    return tuple(
        SetVariable(name=name, value=value, why=why)
        for name, value in values.items()
        if not foreign.get(name)
    )


def _already_set(computed: ComputedVersion, name: str, value: str, stale: set[str]) -> _Decision:
    """The version of a project that the variable `name` of the environment decides."""
    project = computed.project
    # Our pin of an earlier run may hide the value that was set since; it cannot be unset, but it
    # can follow.
    why = f"follows {name}, which was set since the last run"
    hiding = tuple(
        SetVariable(name=variable, value=value, why=why)
        for variable in project.exported_variables
        if variable in stale and variable != name
    )
    if is_pep440(value):
        computes_another = computed.version not in {None, value}
        without = f"; without it: {computed.version}" if computes_another else ""
        finding = rules.ALREADY_SET.finding(
            f"{name}={value} is set and stays: it decides the version of {project.label}{without}"
        )
    else:
        finding = rules.INVALID_PRETEND.finding(
            (
                f"{name} is set to {value!r}, which is not a valid PEP 440 version: "
                f"the build of {project.label} will fail"
            ),
            remedy=ShellCommand(f"unset {name}"),
        )
    return _Decision(
        project=project,
        variables=hiding,
        findings=(finding,),
        line=f"{project.label} {value} (set by {name})",
    )


def _conflict(decisions: Sequence[_Decision], variables: Sequence[SetVariable]) -> Finding | None:
    """The first variable that cannot serve all projects.

    One variable cannot hold two versions, and one without a distribution's name must not reach a
    project that has no pin of its own.
    """
    for variable in variables:
        name = variable.name
        owners = _owners(decisions, name)
        values = sorted({each.value for each in variables if each.name == name})
        reached = [
            each.project.label
            for each in decisions
            if not each.decided and name in each.project.shared_variables
        ]
        effect = f"would need it to be {' and '.join(values)}"
        if len(values) == 1:
            effect = f"read it, and {', '.join(reached)} cannot be pinned"
            owners = sorted([*owners, *reached])
        if len(values) > 1 or reached:
            return rules.CONFLICTING_PINS.finding(
                f"{name} is one for the whole environment: {', '.join(owners)} {effect}",
                remedy=rules.CONFLICTING_PINS.remedy,
            )
    return None


def _owners(decisions: Sequence[_Decision], name: str) -> list[str]:
    """The projects that a variable is exported for."""
    return sorted(
        decision.project.label
        for decision in decisions
        if any(variable.name == name for variable in decision.variables)
    )


def _generic_note(decisions: Sequence[_Decision]) -> list[Finding]:
    """A note if a variable is exported that the builds of other projects read as well."""
    for decision in decisions:
        project = decision.project
        shared = [each.name for each in decision.variables if each.name in project.shared_variables]
        if project.source is None or not project.reads_generic or not shared:
            continue
        # hatch-vcs and others call setuptools-scm, which reads the variable.
        tool = "setuptools-scm" if shared[0].startswith("SETUPTOOLS_SCM") else project.source.name
        readers = _owners(decisions, shared[0])
        return [
            rules.UNSCOPED.finding(
                (
                    f"{shared[0]} is set because the build of {', '.join(readers)} reads no variable with its "
                    f"name in it: every other {tool} project that is built from source in this "
                    "environment takes this version too"
                ),
                remedy=rules.UNSCOPED.remedy,
            )
        ]
    return []


def _why(computed: ComputedVersion) -> str:
    tool = computed.project.tool
    described = computed.described
    if described is None or described.repository is None:
        return f"{tool}, from the project's files"
    place = f"tag {described.tag}" if described.tag else "no usable tag"
    if described.tag and described.distance:
        place += f" + {described.distance}"
    if described.unparsable:
        place += f"; unparsable tags left out: {len(described.unparsable)}"
    return f"{tool}, from {place}"
