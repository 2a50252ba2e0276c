# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: computes the pins of a job's projects and tries them in builds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.environment.pins import Pins, decide_pins
from ci_doctor.environment.project import Project
from ci_doctor.environment.settings import SetupEnvSettings, Verify
from ci_doctor.environment.version_findings import ComputedVersion
from ci_doctor.environment.versions import compute_version
from ci_doctor.machine.interpreters import TargetInterpreter
from ci_doctor.model.facts.setup_env import ProofFact
from ci_doctor.model.finding import Finding, Severity

if TYPE_CHECKING:
    from ci_doctor.environment.proof.prover import Prover
    from ci_doctor.environment.proof.trial import Trial


class Pinning(Struct, frozen=True, kw_only=True):
    """`pins` of the projects `labels`, all `findings`, and how each pin was proven: lines, facts."""

    labels: tuple[str, ...]
    pins: Pins
    findings: tuple[Finding, ...]
    proof_lines: tuple[str, ...] = ()
    proofs: tuple[ProofFact, ...] = ()


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
    fallback = settings.allow_fallback
    labels = tuple(project.label for project in projects)
    computed = [compute_version(project, allow_fallback=fallback) for project in projects]
    if settings.verify is Verify.NEVER or not _can_be_proven(projects, settings.verify):
        pins = decide_pins(computed, environ, ours)
        return Pinning(labels=labels, pins=pins, findings=pins.findings, proofs=_untried(pins, ()))
    # Late: most of the cost of this room, and of no use to a project that needs no proof.
    from ci_doctor.environment.proof.installed import site_directory
    from ci_doctor.environment.proof.prover import Prover

    sites = [site_directory(target.python) for target in targets]
    # What an earlier run has exported must not decide what this one computes.
    foreign = {name: value for name, value in environ.items() if ours.get(name) != value}
    at_hand = [site for site in sites if site is not None]
    with Prover(settings.verify, settings.verify_timeout_s, foreign, at_hand) as prover:
        computed = [prover.derive(each, allow_fallback=fallback) for each in computed]
        pins = decide_pins(computed, environ, ours)
        if _has_error(pins.findings):
            return Pinning(labels=labels, pins=pins, findings=pins.findings)
        return _tried(computed, pins, prover, settings.verify, environ, ours)


def _tried(
    computed: Sequence[ComputedVersion],
    pins: Pins,
    prover: "Prover",
    verify: Verify,
    environ: Mapping[str, str],
    ours: Mapping[str, str],
) -> Pinning:
    from ci_doctor.environment.proof.trial import judge_trial

    exports = {variable.name: variable.value for variable in pins.variables}
    trials: list[Trial] = []
    judged: list[ComputedVersion] = []
    for each in computed:
        trial = prover.try_pin(each, exports)
        if trial is None:
            judged.append(each)
            continue
        trials.append(trial)
        is_unknown = trial.reason is not None and each.version is None
        judged.append(prover.with_danger(each, trial.reason) if is_unknown else each)
    findings = list(decide_pins(judged, environ, ours).findings)
    for trial in trials:
        findings += judge_trial(trial, demanded=verify is Verify.ALWAYS)
    return Pinning(
        labels=tuple(each.project.label for each in computed),
        pins=pins,
        findings=tuple(findings),
        proof_lines=tuple(trial.line for trial in trials),
        proofs=_untried(pins, tuple(_fact(trial) for trial in trials)),
    )


def _untried(pins: Pins, proofs: tuple[ProofFact, ...]) -> tuple[ProofFact, ...]:
    """`proofs`, and an entry for each pin that no build was asked to prove."""
    tried = {proof.project for proof in proofs}
    reason = "not tried: no build was asked for"
    untried = tuple(
        ProofFact(project=label, proven=False, seconds=0.0, reason=reason)
        for label in pins.pinned
        if label not in tried
    )
    return tuple(_with_doubt(each, pins) for each in (*proofs, *untried))


def _with_doubt(proof: ProofFact, pins: Pins) -> ProofFact:
    """A build shows that it takes the pin, and not that an uncertain version is the right one."""
    if proof.project not in pins.uncertain:
        return proof
    reason = "accepted by --allow-fallback; a full clone may have another version"
    return replace(proof, proven=False, reason=reason)


def _fact(trial: "Trial") -> ProofFact:
    return ProofFact(
        project=trial.project.label,
        proven=trial.is_proven,
        seconds=round(trial.seconds, 3),
        reason=None if trial.is_proven else trial.state,
    )


def _can_be_proven(projects: Sequence[Project], verify: Verify) -> bool:
    """Whether any of `projects` has a version that is not known as a literal."""
    if any(not project.is_fixed for project in projects):
        return True
    return verify is Verify.ALWAYS and any(project.version is None for project in projects)


def _has_error(findings: Sequence[Finding]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)
