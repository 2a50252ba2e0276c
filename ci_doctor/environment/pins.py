# SPDX-License-Identifier: Apache-2.0
"""Which variables pin which versions, and whose value wins. Pure: versions and an environment in, variables out."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.environment.backends import Backend
from ci_doctor.environment.project import Project
from ci_doctor.environment.version_findings import ComputedVersion, is_pep440
from ci_doctor.model.action import SetVariable
from ci_doctor.model.finding import Finding, Severity

# The library's order of prefixes (vcs_versioning.overrides.EnvReader); older setuptools-scm reads only the first.
_PREFIXES: Final = ("SETUPTOOLS_SCM_PRETEND_VERSION", "VCS_VERSIONING_PRETEND_VERSION")
_PDM: Final = "PDM_BUILD_SCM_VERSION"


class Pins(Struct, frozen=True, kw_only=True):
    """What to export, what was found on the way (the projects' own findings included), and one line per project.

    `variables` is empty where a finding says that the pins contradict each other.
    """

    variables: tuple[SetVariable, ...]
    findings: tuple[Finding, ...]
    lines: tuple[str, ...]


class _Decision(Struct, frozen=True, kw_only=True):
    computed: ComputedVersion
    variables: tuple[SetVariable, ...] = ()
    findings: tuple[Finding, ...] = ()
    line: str
    decided: bool  # the version is known and will be what the build sees


def decide_pins(
    computed: Sequence[ComputedVersion], environ: Mapping[str, str], ours: Mapping[str, str]
) -> Pins:
    """Decide the variables for projects that share one environment.

    `ours` are values that an earlier run exported: a variable that still holds one is recomputed, any other value in
    `environ` belongs to a person or a pipeline and stays. Findings about a version that such a value decides are dropped.
    """
    foreign = {name: value for name, value in environ.items() if ours.get(name) != value}
    decisions = [_decide(each, foreign, stale=environ.keys() - foreign.keys()) for each in computed]
    variables = tuple(
        {
            (each.name, each.value): each for decision in decisions for each in decision.variables
        }.values()
    )
    findings = tuple(finding for decision in decisions for finding in decision.findings)
    conflict = _conflict(decisions, variables)
    if conflict is not None:
        return Pins(
            variables=(),
            findings=(*findings, conflict),
            lines=tuple(decision.line for decision in decisions),
        )
    note = _generic_note(decisions)
    return Pins(
        variables=variables,
        findings=(*findings, note) if note else findings,
        lines=tuple(decision.line for decision in decisions),
    )


def _decide(computed: ComputedVersion, foreign: Mapping[str, str], *, stale: set[str]) -> _Decision:
    project = computed.project
    match project.backend:
        case Backend.FIXED | Backend.UNSUPPORTED:
            line = _line(project, computed.version or "unknown", f"{project.tool}; nothing to pin")
            return _Decision(computed=computed, findings=computed.findings, line=line, decided=True)
        case Backend.SETUPTOOLS_SCM | Backend.HATCH_VCS | Backend.PDM:
            pass
    name = deciding_name(project, foreign)
    if name is not None:
        return _already_set(computed, name, foreign[name], stale)
    if computed.version is None:
        line = _line(project, "not pinned", project.tool)
        return _Decision(computed=computed, findings=computed.findings, line=line, decided=False)
    why = _why(computed)
    exported = tuple(
        SetVariable(name=variable, value=computed.version, why=why)
        for variable in variables_of(project)
        # A person's value in the variable that does not decide is left alone.
        if not foreign.get(variable)
    )
    return _Decision(
        computed=computed,
        variables=exported,
        findings=computed.findings,
        line=_line(project, computed.version, why),
        decided=True,
    )


def variables_of(project: Project) -> tuple[str, ...]:
    """The variables that pin `project`.

    A distribution's own variable wherever it is read, because the one without a name re-versions every project that is
    built in the same environment (https://github.com/pypa/setuptools-scm/issues/321).
    """
    if project.backend is Backend.PDM:
        return (_PDM,)
    scoped = (f"{_PREFIXES[0]}_FOR_{suffix(project.name)}",) if project.name else ()
    if not project.reads_generic:
        return scoped
    return (_PREFIXES[0], *scoped) if project.backend is Backend.SETUPTOOLS_SCM else (_PREFIXES[0],)


def deciding_name(project: Project, environ: Mapping[str, str]) -> str | None:
    """The variable whose value the backend of `project` would take; None where none is set.

    The first that exists wins, even an empty one, and an empty value means "ask git" (vcs_versioning.overrides
    EnvReader.read, _read_pretended_version_for): so an empty scoped variable hides a generic one.
    """
    if project.backend is Backend.PDM:
        return _PDM if environ.get(_PDM) else None
    scoped = project.name if not project.reads_generic else None
    names = [*(f"{prefix}_FOR_{suffix(scoped)}" for prefix in _PREFIXES if scoped), *_PREFIXES]
    for name in names:
        if name in environ:
            return name if environ[name] else None
    if scoped is None:
        return None
    misspelt = [name for prefix in _PREFIXES for name in environ if _means(name, prefix, scoped)]
    return misspelt[0] if misspelt and environ[misspelt[0]] else None


def suffix(name: str) -> str:
    """A distribution's name as part of a variable's (PEP 503, then upper case and underscores): `my--pkg.x` is MY_PKG_X."""
    return _canonical(name).replace("-", "_").upper()


def _canonical(name: str) -> str:
    return "-".join(
        part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part
    )


def _means(variable: str, prefix: str, name: str) -> bool:
    """Whether the library would accept a misspelt suffix: it compares canonical names."""
    start = f"{prefix}_FOR_"
    return variable.startswith(start) and _canonical(variable.removeprefix(start)) == _canonical(
        name
    )


def _already_set(computed: ComputedVersion, name: str, value: str, stale: set[str]) -> _Decision:
    project = computed.project
    says = "" if computed.version in {None, value} else f"; without it: {computed.version}"
    finding = Finding(
        rule="version/already-set",
        severity=Severity.NOTE,
        summary=f"{name}={value} is set and stays: it decides the version of {project.label}{says}",
    )
    if not is_pep440(value):
        finding = Finding(
            rule="version/invalid-pretend",
            severity=Severity.ERROR,
            summary=f"{name} is set to {value!r}, which is not a valid PEP 440 version: the build of {project.label} will fail",
            remedy=f"unset {name}",
        )
    # Our pin of an earlier run may hide the value that was set since; it cannot be unset, but it can follow.
    hiding = tuple(
        SetVariable(
            name=variable, value=value, why=f"follows {name}, which was set since the last run"
        )
        for variable in variables_of(project)
        if variable in stale and variable != name
    )
    return _Decision(
        computed=computed,
        variables=hiding,
        findings=(finding,),
        line=_line(project, value, f"set by {name}"),
        decided=True,
    )


def _conflict(decisions: Sequence[_Decision], variables: Sequence[SetVariable]) -> Finding | None:
    """One variable cannot hold two versions, and one without a name must not reach a project that has no pin of its own."""
    for variable in variables:
        owners = _owners(decisions, variable.name)
        values = sorted({each.value for each in variables if each.name == variable.name})
        if len(values) > 1:
            return _conflicting(
                variable.name, owners, f"would need it to be {' and '.join(values)}"
            )
        unpinned = [decision.computed.project for decision in decisions if not decision.decided]
        reached = [
            project.label for project in unpinned if variable.name in _shared_variables(project)
        ]
        if reached:
            return _conflicting(
                variable.name,
                [*owners, *reached],
                f"read it, and {', '.join(reached)} cannot be pinned",
            )
    return None


def _owners(decisions: Sequence[_Decision], name: str) -> list[str]:
    """The projects that a variable is exported for."""
    return sorted(
        d.computed.project.label
        for d in decisions
        if any(each.name == name for each in d.variables)
    )


def _shared_variables(project: Project) -> tuple[str, ...]:
    """What the backend reads that has no distribution's name in it."""
    return (_PDM,) if project.backend is Backend.PDM else _PREFIXES


def _conflicting(name: str, owners: Sequence[str], what: str) -> Finding:
    return Finding(
        rule="version/conflicting-pins",
        severity=Severity.ERROR,
        summary=f"{name} is one for the whole environment: {', '.join(sorted(owners))} {what}",
        remedy="prepare each project in a step of its own, or give get_version() a dist_name",
    )


def _generic_note(decisions: Sequence[_Decision]) -> Finding | None:
    readers = _owners(decisions, _PREFIXES[0])
    if not readers:
        return None
    return Finding(
        rule="version/unscoped",
        severity=Severity.NOTE,
        summary=(
            f"{_PREFIXES[0]} is set because the build of {', '.join(readers)} reads no variable with its name in it: "
            "every other setuptools-scm project that is built from source in this environment takes this version too"
        ),
        remedy="build it in a step of its own, or call get_version(dist_name=...)",
    )


def _why(computed: ComputedVersion) -> str:
    described = computed.described
    if described is None or described.repository is None:
        return f"{computed.project.tool}, from the project's files"
    place = f"tag {described.tag}" if described.tag else "no usable tag"
    distance = f" + {described.distance}" if described.tag and described.distance else ""
    left_out = (
        f"; unparsable tags left out: {len(described.unparsable)}" if described.unparsable else ""
    )
    return f"{computed.project.tool}, from {place}{distance}{left_out}"


def _line(project: Project, version: str, why: str) -> str:
    return f"{project.label} {version} ({why})"
