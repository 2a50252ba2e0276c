# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: what a job's environment needs, with pins that builds have tried; and whether `setup-env` ran for this job."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.buildkite.plugin import plugin_prepares
from ci_doctor.config.decoding import decode_section, variable_name
from ci_doctor.config.loading import Config
from ci_doctor.environment import determinism, exports, rules
from ci_doctor.environment.detection import has_project, read_project
from ci_doctor.environment.determinism import IfMissing, SetupEnvSettings, Verify
from ci_doctor.environment.project import Project
from ci_doctor.errors import PreparationError
from ci_doctor.machine.interpreters import TargetInterpreter, choose_targets
from ci_doctor.model.facts.diagnose import DeterminismFact, ProofFact, RunFacts, SetupEnvFacts
from ci_doctor.model.outcome import (
    Case,
    CaseOutcome,
    Finding,
    Outcome,
    Severity,
    ShellCommand,
    Table,
    Verdict,
    row,
    text_table,
)
from ci_doctor.model.words import EVALUATION, PREPARED
from ci_doctor.render.formatting import amount

if TYPE_CHECKING:
    # Loaded where pins are decided: a command that measures prepares nothing.
    from ci_doctor.environment.pins import Pins

# Acts on files and processes: what a job's environment needs, with pins that builds have tried.


class Pinning(Struct, frozen=True, kw_only=True):
    """`pins` of the projects `labels`, all `findings`, and how each pin was proven: lines, facts."""

    labels: tuple[str, ...]
    pins: "Pins"
    findings: tuple[Finding, ...]
    proof_lines: tuple[str, ...] = ()
    proofs: tuple[ProofFact, ...] = ()


class Preparation(Struct, frozen=True, kw_only=True):
    """What is to be exported (`exports`, in order, with the marker last) and the reasons.

    `changed` names the variables that the job does not have yet, or not with this value, and the
    files that were written. `proofs` say how each pin was tried. `preloads` are the rules by which a command preloads without a shim.
    """

    exports: dict[str, str] = {}
    changed: tuple[str, ...] = ()
    requested: tuple[DeterminismFact, ...] = ()
    targets: tuple[TargetInterpreter, ...] = ()
    findings: tuple[Finding, ...] = ()
    tables: tuple[Table, ...] = ()
    cases: tuple[Case, ...] = ()
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
        return replace(
            self, changed=tuple(name for name in self.changed if name not in self.exports)
        )


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
    errors = _errors(pinning.findings)
    if errors:
        raise PreparationError(
            f"the environment cannot be prepared: {errors[0].summary}",
            hint=errors[0].remedy,
            findings=pinning.findings,
        )
    profile = determinism.decide(settings.determinism, environ, earlier)
    findings = (*pinning.findings, *profile.findings)
    if not projects and not has_project(Path.cwd()):
        summary = f"{Path.cwd()} holds no Python project, so no version is pinned"
        findings = (rules.NO_PROJECT.finding(summary, remedy=rules.NO_PROJECT.remedy), *findings)
    exports.require_names(variable.name for variable in pins.variables)
    variables = (*pins.variables, *profile.variables)
    ours = {variable.name: variable.value for variable in variables}
    return Preparation(
        exports={**ours, exports.MARKER: exports.marker(ours, earlier)} if ours else {},
        changed=tuple(name for name, value in ours.items() if environ.get(name) != value),
        requested=profile.requested,
        targets=targets,
        findings=findings,
        tables=_tables(pinning, profile.requested, targets),
        proofs=pinning.proofs,
        cases=tuple(
            Case(group="exports", name=each.name, outcome=CaseOutcome.PASSED, message=each.why)
            for each in variables
        ),
    )


def pin_projects(
    projects: Sequence[Project],
    settings: SetupEnvSettings,
    targets: Sequence[TargetInterpreter],
    environ: Mapping[str, str],
    ours: Mapping[str, str],
) -> Pinning:
    """The pins for `projects`, which share one environment; `ours` as for `decide_pins`.

    Raises UsageError if git is needed and missing.
    """
    from ci_doctor.environment.pins import decide_pins
    from ci_doctor.environment.versions import compute_version

    verify = settings.verify
    fallback = settings.allow_fallback
    labels = tuple(project.label for project in projects)
    computed = [compute_version(project, allow_fallback=fallback) for project in projects]
    # A version that stands in a file needs no proof, unless one is demanded in every case.
    demands = verify is Verify.ALWAYS
    has_doubt = any(not each.is_fixed or (demands and each.version is None) for each in projects)
    if verify is Verify.NEVER or not has_doubt:
        pins = decide_pins(computed, environ, ours)
        return Pinning(labels=labels, pins=pins, findings=pins.findings, proofs=_proofs(pins, ()))
    # Late: most of the cost of this room, and of no use to a project that needs no proof.
    from ci_doctor.environment.metadata_build import site_directory
    from ci_doctor.environment.prover import Prover, judge_trial

    sites = [site for target in targets if (site := site_directory(target.python)) is not None]
    # What an earlier run has exported must not decide what this one computes.
    foreign = {name: value for name, value in environ.items() if ours.get(name) != value}
    with Prover(verify, settings.verify_timeout_s, foreign, sites) as prover:
        computed = [prover.derive(each, allow_fallback=fallback) for each in computed]
        pins = decide_pins(computed, environ, ours)
        if _errors(pins.findings):
            return Pinning(labels=labels, pins=pins, findings=pins.findings)
        variables = {variable.name: variable.value for variable in pins.variables}
        trials = []
        for index, each in enumerate(computed):
            trial = prover.try_pin(each, variables)
            if trial is None:
                continue
            trials.append(trial)
            if trial.reason is not None and each.version is None:
                computed[index] = prover.with_danger(each, trial.reason)
    findings = list(decide_pins(computed, environ, ours).findings)
    for trial in trials:
        findings += judge_trial(trial, demanded=demands)
    return Pinning(
        labels=labels,
        pins=pins,
        findings=tuple(findings),
        proof_lines=tuple(trial.line for trial in trials),
        proofs=_proofs(pins, [trial.proof for trial in trials]),
    )


def _proofs(pins: "Pins", proofs: Sequence[ProofFact]) -> tuple[ProofFact, ...]:
    """`proofs`, and an entry for each pin that no build was asked to prove.

    A build shows that it takes the pin, and not that an uncertain version is the right one.
    """
    tried = {proof.project for proof in proofs}
    reason = "not tried: no build was asked for"
    untried = [
        ProofFact(project=label, proven=False, seconds=0.0, reason=reason)
        for label in pins.pinned
        if label not in tried
    ]
    doubt = "accepted by --allow-fallback; a full clone may have another version"
    return tuple(
        replace(proof, proven=False, reason=doubt) if proof.project in pins.uncertain else proof
        for proof in (*proofs, *untried)
    )


def _errors(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is Severity.ERROR]


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


def _summary(preparation: Preparation, *, dry_run: bool) -> str:
    if not preparation.changed:
        # The two markers are ours, and of no interest to a reader.
        count = len(preparation.exports.keys() - {exports.MARKER, PREPARED})
        return f"nothing to change: {amount(count, 'variable')} already set"
    names = ", ".join(preparation.changed)
    return f"would change {names}" if dry_run else f"prepared: {names}"


def _tables(
    pinning: Pinning,
    requested: Sequence[DeterminismFact],
    targets: Sequence[TargetInterpreter],
) -> tuple[Table, ...]:
    """One for versions, pins, variables and interpreters each; an empty one is left out."""
    proofs = {proof.project: proof for proof in pinning.proofs}
    versions = []
    for label, line in zip(pinning.labels, pinning.pins.lines, strict=True):
        is_pin = label in pinning.pins.pinned and label in proofs
        versions.append(f"{line}; {_proof_words(proofs[label])}" if is_pin else line)
    variables = []
    for each in requested:
        known = "" if each.effective == determinism.AS_REQUESTED else f"; {each.effective}"
        variables.append(row(f"{each.name}={each.requested}", f"({each.set_by}{known})"))
    own = " (ci-doctor itself is installed here)"
    interpreters = [
        row(str(target.python), f"from {target.why}{own if target.own else ''}")
        for target in targets
    ]
    tables = (
        text_table("Versions", tuple(versions)),
        Table(
            title="Pins, tried in a build of the metadata",
            rows=tuple(row(line) for line in pinning.proof_lines),
            is_detail=True,
        ),
        Table(
            title="Determinism, as requested (effective where the library reads it)",
            rows=tuple(variables),
            is_detail=True,
        ),
        Table(title="Interpreters", rows=tuple(interpreters), is_detail=True),
    )
    return tuple(table for table in tables if table.rows)


def _proof_words(proof: ProofFact) -> str:
    return "proven by a build" if proof.proven else f"NOT proven by a build ({proof.reason})"


def _facts(preparation: Preparation) -> SetupEnvFacts:
    facts = SetupEnvFacts(
        exports=preparation.exports,
        changed=preparation.changed,
        determinism=preparation.requested,
        targets=tuple(str(target.python) for target in preparation.targets),
        proofs=preparation.proofs,
    )
    if preparation.preloads is None:
        return facts
    return RunFacts(**asdict(facts), preload=preparation.preloads)


# Acts on the build: whether `setup-env` ran for this job, and its variables for the later phases.
#
# The shell that evaluates the exports is not ours. If Python dies before our code runs, nothing of
# ours can stop that shell; the job's next ci-doctor command can see it.

SECTION = "setup-env"
_JOB = "BUILDKITE_JOB_ID"
_NO_JOB = "-"
_SEVERITIES = {IfMissing.WARNING: Severity.WARNING, IfMissing.ERROR: Severity.ERROR}


def prepared_value(config: Config, environ: Mapping[str, str]) -> str:
    """The value of PREPARED: the job, and a digest of the section that was read for it."""
    return f"{environ.get(_JOB) or _NO_JOB}:{_digest(config)}"


def missing_preparation(config: Config, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """What is missing of the preparation that this job expects; nothing if it expects none.

    Raises ConfigError for a wrong section, and PreparationError for a finding of severity error.
    """
    place = _place(config, environ)
    if place is None and PREPARED not in environ:
        return ()
    settings, _ = decode_section(config, SECTION, SetupEnvSettings, environ=environ, flags={})
    severity = _SEVERITIES.get(settings.if_missing)
    if severity is None:
        return ()
    reason = _reason(config, environ) if place else None
    findings = _lost(environ, severity)
    if place and reason:
        summary = f"setup-env did not prepare this job: {place}, but {reason}"
        remedy = ShellCommand(f"# before this command, in the same shell\n{EVALUATION}")
        findings = (rules.NOT_PREPARED.finding(summary, severity=severity, remedy=remedy),)
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise PreparationError(finding.summary, hint=finding.remedy, findings=findings)
    return findings


def _place(config: Config, environ: Mapping[str, str]) -> str | None:
    """Who expects that `setup-env` ran, in words; None if nobody does."""
    if SECTION in config.tables:
        return f"{config.where(SECTION)} configures it"
    for name in SetupEnvSettings.__struct_fields__:
        variable = variable_name(SECTION, name)
        if environ.get(variable):
            return f"{variable} configures it"
    if plugin_prepares(environ):
        return "the step's ci-doctor plugin was to run it"
    return None


def _reason(config: Config, environ: Mapping[str, str]) -> str | None:
    """Why the preparation of this job is missing; None if it is there."""
    value = environ.get(PREPARED)
    if value is None:
        return f"{PREPARED} is not set"
    job, _, digest = value.partition(":")
    here = environ.get(_JOB)
    # Either is unknown in a container that does not get the agent's variables.
    if here and job not in (_NO_JOB, here):
        return f"{PREPARED} is that of job {job}"
    if SECTION in config.tables and digest != _digest(config):
        return f"it ran with other settings than those of {config.where(SECTION)}"
    return None


def _digest(config: Config) -> str:
    # Not the key that says what to do now: it decides nothing that was exported.
    section = config.tables.get(SECTION, {})
    table = {name: value for name, value in section.items() if name != "if_missing"}
    return exports.digest(json.dumps(table, sort_keys=True, default=str))


def _lost(environ: Mapping[str, str], severity: Severity) -> tuple[Finding, ...]:
    """Exports of this job that its commands do not see any more, or see with another value."""
    gone, changed = exports.lost(environ)
    findings = []
    if gone:
        summary = f"setup-env exported {', '.join(gone)}, and this command does not see it"
        remedy = "do not unset it after setup-env, and pass it on into containers"
        findings.append(rules.LOST_EXPORTS.finding(summary, severity=severity, remedy=remedy))
    if changed:
        summary = f"another value than that of setup-env is set: {', '.join(changed)}"
        findings.append(rules.LOST_EXPORTS.finding(summary, severity=Severity.NOTE))
    return tuple(findings)


def set_on_agent(variables: Mapping[str, str], environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """Write `variables` to the job's environment, if this is a job whose agent can do that.

    A failure is a note, because the step evaluates the exports too.
    """
    if "BUILDKITE_AGENT_JOB_API_SOCKET" not in environ:
        return ()
    from ci_doctor.buildkite.agent import Agent

    agent = Agent.find(environ)
    result = agent.set_environment(variables) if agent else None
    if result is None or result.ok:
        return ()
    return (rules.AGENT.finding(f"buildkite-agent env set: {result.message}"),)
