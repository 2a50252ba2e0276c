# SPDX-License-Identifier: Apache-2.0
"""Pure. Which variables pin which versions, and whose value wins."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ci_doctor.environment import rules
from ci_doctor.environment.project import Project, VersionSource
from ci_doctor.environment.version_findings import ComputedVersion, is_pep440
from ci_doctor.model.action import SetVariable
from ci_doctor.model.finding import Finding, ShellCommand


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
    decided: bool

    def exports(self, name: str) -> bool:
        return any(variable.name == name for variable in self.variables)


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
    variables = _distinct_variables(decisions)
    findings: list[Finding] = []
    for decision in decisions:
        findings.extend(decision.findings)
    conflict = _conflict(decisions, variables)
    note = _generic_note(decisions)
    if conflict is not None:
        variables = ()
        findings.append(conflict)
    elif note is not None:
        findings.append(note)
    lines = tuple(decision.line for decision in decisions)
    if variables:
        variables = (*variables, *_agreed_commits(decisions))
    pinned = tuple(each.project.label for each in decisions if variables and each.variables)
    uncertain = tuple(each.project.label for each in computed if each.is_uncertain)
    return Pins(
        variables=variables,
        findings=tuple(findings),
        lines=lines,
        pinned=pinned,
        uncertain=uncertain,
    )


def _distinct_variables(decisions: Sequence[_Decision]) -> tuple[SetVariable, ...]:
    """Each variable and value once: projects that agree share one."""
    distinct: dict[tuple[str, str], SetVariable] = {}
    for decision in decisions:
        for variable in decision.variables:
            distinct[variable.name, variable.value] = variable
    return tuple(distinct.values())


def _agreed_commits(decisions: Sequence[_Decision]) -> tuple[SetVariable, ...]:
    """The commit of each version; none where two projects share a variable and differ in it."""
    by_name: dict[str, dict[str, SetVariable]] = {}
    for decision in decisions:
        for variable in decision.commits:
            by_name.setdefault(variable.name, {})[variable.value] = variable
    agreed = [values for values in by_name.values() if len(values) == 1]
    return tuple(variable for values in agreed for variable in values.values())


def _decide(computed: ComputedVersion, foreign: Mapping[str, str], *, stale: set[str]) -> _Decision:
    project = computed.project
    source = project.source
    if source is None:
        end = "nothing to pin" if project.is_fixed else "not pinned"
        line = _line(project, computed.version or "unknown", f"{project.tool}; {end}")
        return _Decision(project=project, findings=computed.findings, line=line, decided=True)
    name = source.deciding_variable(project, foreign)
    if name is not None:
        return _already_set(computed, source, (name, foreign[name]), stale)
    if computed.version is None:
        line = _line(project, "not pinned", project.tool)
        return _Decision(project=project, findings=computed.findings, line=line, decided=False)
    why = _why(computed)
    versions = dict.fromkeys(source.exported_variables(project), computed.version)
    described = computed.described
    commits = {} if described is None else source.commit_variables(project, described)
    return _Decision(
        project=project,
        variables=_free_variables(versions, foreign, why),
        commits=_free_variables(commits, foreign, f"the commit of {computed.version}"),
        findings=computed.findings,
        line=_line(project, computed.version, why),
        decided=True,
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


def _already_set(
    computed: ComputedVersion, source: VersionSource, deciding: tuple[str, str], stale: set[str]
) -> _Decision:
    """The version of a project for which the environment holds the name and value `deciding`."""
    project = computed.project
    name, value = deciding
    # Our pin of an earlier run may hide the value that was set since; it cannot be unset, but it
    # can follow.
    why = f"follows {name}, which was set since the last run"
    hiding = tuple(
        SetVariable(name=variable, value=value, why=why)
        for variable in source.exported_variables(project)
        if variable in stale and variable != name
    )
    return _Decision(
        project=project,
        variables=hiding,
        findings=(_kept_value(computed, name, value),),
        line=_line(project, value, f"set by {name}"),
        decided=True,
    )


def _kept_value(computed: ComputedVersion, name: str, value: str) -> Finding:
    label = computed.project.label
    if not is_pep440(value):
        return rules.INVALID_PRETEND.finding(
            (
                f"{name} is set to {value!r}, which is not a valid PEP 440 version: "
                f"the build of {label} will fail"
            ),
            remedy=ShellCommand(f"unset {name}"),
        )
    differs = computed.version not in {None, value}
    without = f"; without it: {computed.version}" if differs else ""
    return rules.ALREADY_SET.finding(
        f"{name}={value} is set and stays: it decides the version of {label}{without}",
    )


def _conflict(decisions: Sequence[_Decision], variables: Sequence[SetVariable]) -> Finding | None:
    """The first variable that cannot serve all projects.

    One variable cannot hold two versions, and one without a distribution's name must not reach a
    project that has no pin of its own.
    """
    for variable in variables:
        owners = _owners(decisions, variable.name)
        values = sorted({each.value for each in variables if each.name == variable.name})
        if len(values) > 1:
            effect = f"would need it to be {' and '.join(values)}"
            return _conflicting(variable.name, owners, effect)
        reached = list(_unpinned_readers(decisions, variable.name))
        if reached:
            effect = f"read it, and {', '.join(reached)} cannot be pinned"
            return _conflicting(variable.name, [*owners, *reached], effect)
    return None


def _unpinned_readers(decisions: Sequence[_Decision], name: str) -> Iterator[str]:
    """The projects without a pin that would take their version from the variable `name`."""
    for decision in decisions:
        source = decision.project.source
        if source is None or decision.decided:
            continue
        if name in source.shared_variables():
            yield decision.project.label


def _owners(decisions: Sequence[_Decision], name: str) -> list[str]:
    """The projects that a variable is exported for."""
    return sorted(decision.project.label for decision in decisions if decision.exports(name))


def _conflicting(name: str, owners: Sequence[str], effect: str) -> Finding:
    return rules.CONFLICTING_PINS.finding(
        f"{name} is one for the whole environment: {', '.join(sorted(owners))} {effect}",
        remedy=rules.CONFLICTING_PINS.remedy,
    )


def _generic_note(decisions: Sequence[_Decision]) -> Finding | None:
    """A note if a variable is exported that the builds of other projects read as well."""
    names: dict[str, str] = {}
    for decision in decisions:
        source = decision.project.source
        if source is None or not decision.project.reads_generic:
            continue
        for variable in decision.variables:
            if variable.name in source.shared_variables():
                names[variable.name] = source.name
    if not names:
        return None
    (name, *_) = names
    # hatch-vcs and flit_scm call setuptools-scm, which reads the variable.
    tool = "setuptools-scm" if name.startswith("SETUPTOOLS_SCM") else names[name]
    readers = _owners(decisions, name)
    return rules.UNSCOPED.finding(
        (
            f"{name} is set because the build of {', '.join(readers)} reads no variable with its "
            f"name in it: every other {tool} project that is built from source in this "
            "environment takes this version too"
        ),
        remedy=rules.UNSCOPED.remedy,
    )


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


def _line(project: Project, version: str, why: str) -> str:
    return f"{project.label} {version} ({why})"
