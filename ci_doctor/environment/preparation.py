# SPDX-License-Identifier: Apache-2.0
"""Reads projects and git: what a job's environment needs, and the outcome of preparing it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.environment import determinism, exports, rules
from ci_doctor.environment.detection import read_project
from ci_doctor.environment.pinning import Pinning, pin_projects
from ci_doctor.environment.project import Project
from ci_doctor.environment.settings import SetupEnvSettings
from ci_doctor.errors import PreparationError
from ci_doctor.machine.interpreters import TargetInterpreter, choose_targets
from ci_doctor.model.action import SetVariable
from ci_doctor.model.evaluation import PREPARED
from ci_doctor.model.facts.setup_env import DeterminismFact, ProofFact, RunFacts, SetupEnvFacts
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import Case, CaseOutcome, Outcome
from ci_doctor.model.table import Row, Table, row, text_table
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount

_DETERMINISM_TITLE = "Determinism, as requested (effective where the library reads it)"


class Preparation(Struct, frozen=True, kw_only=True):
    """What is to be exported (`exports`, in order, with the marker last) and the reasons.

    `changed` names the variables that the job does not have yet, or not with this value, and the
    files that were written. `proofs` say how each pin was tried. `preloads` are the rules by which a command preloads without a shim.
    """

    exports: dict[str, str]
    changed: tuple[str, ...]
    requested: tuple[determinism.Requested, ...]
    targets: tuple[TargetInterpreter, ...]
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...]
    cases: tuple[Case, ...]
    proofs: tuple[ProofFact, ...] = ()
    preloads: tuple[str, ...] | None = None

    @property
    def comments(self) -> tuple[str, ...]:
        """What the exports say of each pin: whether a build has proven it."""
        return tuple(f"{proof.project}: {_proof_words(proof)}" for proof in self.proofs)

    def with_findings(self, *findings: Finding) -> "Preparation":
        """The same with more findings."""
        return replace(self, findings=(*self.findings, *findings))

    def for_job(self, prepared: str) -> "Preparation":
        """The same with the variable that tells later commands of the job about it, the last one."""
        return replace(self, exports={**self.exports, PREPARED: prepared})

    def with_output(self, output: Path, *, differs: bool) -> "Preparation":
        """The same with exports that go to a file.

        The file changes if it `differs` from the exports; the job's variables do not.
        """
        if differs:
            return replace(self, changed=(*self.changed, str(output)))
        changed = tuple(name for name in self.changed if name not in self.exports)
        return replace(self, changed=changed)


def prepare(settings: SetupEnvSettings, environ: Mapping[str, str] = os.environ) -> Preparation:
    """Decide the exports for the projects of `settings`. Changes nothing.

    Raises UsageError, and PreparationError if a finding forbids the exports.
    """
    earlier = exports.ours(environ)
    projects = [read_project(Path(directory)) for directory in settings.projects]
    directories = [project.directory for project in projects] or [Path.cwd()]
    targets = choose_targets(settings.pythons, settings.venvs, directories, environ)
    pinning = pin_projects(projects, settings, targets, environ, earlier)
    pins = pinning.pins
    _refuse_errors(pinning.findings)
    profile = determinism.decide(settings.determinism, environ, earlier)
    exports.require_names(variable.name for variable in pins.variables)
    variables = (*pins.variables, *profile.variables)
    ours = {variable.name: variable.value for variable in variables}
    marked = {**ours, exports.MARKER: exports.marker(ours, earlier)} if ours else {}
    return Preparation(
        exports=marked,
        changed=tuple(name for name, value in ours.items() if environ.get(name) != value),
        requested=profile.requested,
        targets=targets,
        findings=(*_no_project(projects), *pinning.findings, *profile.findings),
        tables=_tables(pinning, profile.requested, targets),
        proofs=pinning.proofs,
        cases=tuple(_case(variable) for variable in variables),
    )


def outcome(preparation: Preparation, *, dry_run: bool = False) -> Outcome:
    """The outcome of a preparation that succeeded; a dry run judges nothing."""
    return Outcome(
        verdict=None if dry_run else Verdict.PASS,
        summary=_summary(preparation, dry_run=dry_run),
        findings=preparation.findings,
        tables=preparation.tables,
        cases=preparation.cases,
        facts=_facts(preparation),
    )


def _no_project(projects: Sequence[Project]) -> tuple[Finding, ...]:
    """A note if no version is pinned because there is no project."""
    if projects:
        return ()
    return (
        rules.NO_PROJECT.finding(
            f"{Path.cwd()} holds no Python project, so no version is pinned",
            remedy=rules.NO_PROJECT.remedy,
        ),
    )


def _refuse_errors(findings: Sequence[Finding]) -> None:
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise PreparationError(
                f"the environment cannot be prepared: {finding.summary}",
                hint=finding.remedy,
                findings=tuple(findings),
            )


def _summary(preparation: Preparation, *, dry_run: bool) -> str:
    if not preparation.changed:
        # The two markers are ours, and of no interest to a reader.
        count = len(preparation.exports.keys() - {exports.MARKER, PREPARED})
        return f"nothing to change: {amount(count, 'variable')} already set"
    names = ", ".join(preparation.changed)
    return f"would change {names}" if dry_run else f"prepared: {names}"


def _tables(
    pinning: Pinning,
    requested: Sequence[determinism.Requested],
    targets: Sequence[TargetInterpreter],
) -> tuple[Table, ...]:
    variables = tuple(_variable_row(each) for each in requested)
    interpreters = tuple(_target_row(target) for target in targets)
    tables = (
        text_table("Versions", _version_lines(pinning)),
        text_table("Pins, tried in a build of the metadata", pinning.proof_lines),
        Table(title=_DETERMINISM_TITLE, rows=variables),
        Table(title="Interpreters", rows=interpreters),
    )
    return tuple(table for table in tables if table.rows)


def _version_lines(pinning: Pinning) -> tuple[str, ...]:
    """A line for each project; a pin says whether a build has proven it."""
    proofs = {proof.project: proof for proof in pinning.proofs}
    lines = []
    for label, line in zip(pinning.labels, pinning.pins.lines, strict=True):
        is_pin = label in pinning.pins.pinned and label in proofs
        lines.append(f"{line}; {_proof_words(proofs[label])}" if is_pin else line)
    return tuple(lines)


def _proof_words(proof: ProofFact) -> str:
    return "proven by a build" if proof.proven else f"NOT proven by a build ({proof.reason})"


def _variable_row(each: determinism.Requested) -> Row:
    known = "" if each.effective == determinism.AS_REQUESTED else f"; {each.effective}"
    return row(f"{each.name}={each.value}", f"({each.set_by}{known})")


def _target_row(target: TargetInterpreter) -> Row:
    own = " (ci-doctor itself is installed here)" if target.own else ""
    return row(str(target.python), f"from {target.why}{own}")


def _case(variable: SetVariable) -> Case:
    outcome = CaseOutcome.PASSED
    return Case(group="exports", name=variable.name, outcome=outcome, message=variable.why)


def _facts(preparation: Preparation) -> SetupEnvFacts:
    variables = []
    for each in preparation.requested:
        fact = DeterminismFact(name=each.name, requested=each.value, effective=each.effective)
        variables.append(fact)
    facts = SetupEnvFacts(
        exports=preparation.exports,
        changed=preparation.changed,
        determinism=tuple(variables),
        targets=tuple(str(target.python) for target in preparation.targets),
        proofs=preparation.proofs,
    )
    if preparation.preloads is None:
        return facts
    return RunFacts(
        exports=facts.exports,
        changed=facts.changed,
        determinism=facts.determinism,
        targets=facts.targets,
        proofs=facts.proofs,
        preload=preparation.preloads,
    )
