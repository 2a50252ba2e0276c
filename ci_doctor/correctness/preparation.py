# SPDX-License-Identifier: Apache-2.0
"""Reads settings, requests, archive and machine: what a run is, before its first start."""

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.config.loading import Config
from ci_doctor.correctness import rules
from ci_doctor.correctness.devices import at_once
from ci_doctor.correctness.evidence.run_identity import RunIdentity, identify, with_order
from ci_doctor.correctness.evidence.samples import Outputs
from ci_doctor.correctness.pace import Pace, budget_of
from ci_doctor.correctness.planning import plan, widening
from ci_doctor.correctness.report.findings import Context, run_context
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import (
    Arm,
    CorrectnessSettings,
    ExperimentPlan,
    Policy,
)
from ci_doctor.correctness.verdict.looks import widened
from ci_doctor.errors import UsageError
from ci_doctor.git import Checkout, checkout
from ci_doctor.identity.identity import Identity
from ci_doctor.identity.read import Served, read_identity
from ci_doctor.load.prompts import parameters_of
from ci_doctor.load.requests import Request, protocol_of, read_requests
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.quantities import parse_size
from ci_doctor.services.spec import start_order
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor

if TYPE_CHECKING:
    from ci_doctor.correctness.archive.run_archive import RunArchive


class ExperimentRequest(Struct, frozen=True, kw_only=True):
    """An experiment to make.

    `config` holds the services that the arms name. Relative paths in `settings` are relative to the
    working directory. `only` restricts the requests to these ids. `resume` continues the run in the
    report directory. `argv` are the words of a command line that does the same, for commands to
    paste; `began` is the monotonic time from which the budget counts, by default the call.
    """

    settings: CorrectnessSettings
    config: Config = Config(path=None, tables={})
    only: tuple[str, ...] = ()
    resume: bool = False
    argv: tuple[str, ...] = ("correctness",)
    began: float | None = None


# The form in which answers become comparable. Another form makes other digests of the same answers,
# so a change of it needs another name here. A test holds the name and the digests of fixed answers
# together.
COMPARISON_FORM = "0bc095900a7b"


def requests_digest(requests: Sequence[Request]) -> str:
    """SHA-256 in hex over id, path and body of every request, in the order of sending."""
    content = hashlib.sha256()
    for each in requests:
        parts: list[object] = [each.id, each.path, each.body, *each.rare_parts().values()]
        # The order of keys in a body is no difference to a server.
        content.update(json.dumps(parts, sort_keys=True).encode("ascii") + b"\n")
    return content.hexdigest()


def identity_of(
    plan: ExperimentPlan, arm: Arm, redactor: Redactor, ignore: Sequence[str]
) -> Identity:
    """The identity of an arm's servers.

    It covers machine, libraries, model, command line and schedule. `ignore` holds patterns of facts
    that may differ.
    """
    arm_plan = plan.arms[arm]
    # Requests may name several models, such as LoRA adapters.
    models = {str(request.body["model"]) for request in plan.requests if "model" in request.body}
    served = []
    for name in start_order(arm_plan.specs, arm_plan.names):
        spec = arm_plan.specs[name]
        # The environment of the arm goes on top of ours, as it does at the start.
        environ = {**plan.environment, **spec.env}
        cwd = plan.services_directory / (spec.cwd or "")
        served.append(Served(name=name, words=tuple(spec.words()), environ=environ, cwd=cwd))
    identity = read_identity(served, models, redactor, ignore)
    facts = {
        "requests": f"{len(plan.requests)}, sha256 {requests_digest(plan.requests)[:16]}",
        "schedule.passes": str(plan.passes),
        "schedule.concurrency": str(plan.concurrency),
        "schedule.caches": str(plan.caches),
        "schedule.reset": arm_plan.reset or "none",
        # Another form has other digests of the same answers.
        "comparison": COMPARISON_FORM,
    }
    return identity.also(Identity.of(facts))


def sampling_findings(requests: Sequence[Request], path: Path) -> tuple[Finding, ...]:
    """A warning if requests ask for random sampling: their answers may differ by design."""
    random = [request for request in requests if not _is_greedy(request)]
    if not random:
        return ()
    # One place is enough: the requests of a file are mostly written alike.
    first = random[0]
    return (
        rules.NOT_GREEDY.finding(
            f"{len(random)} of {len(requests)} requests do not ask for temperature 0: "
            "their answers may differ by design",
            evidence=(Evidence(file=str(path), line=first.line, excerpt=f"request {first.id}"),),
            remedy=rules.NOT_GREEDY.remedy,
        ),
    )


def _is_greedy(request: Request) -> bool:
    """Whether the likeliest token is always taken. With `top_k` 1 the temperature is irrelevant.

    text-generation-inference takes no temperature of 0, and has `do_sample` for it.
    """
    parameters = parameters_of(request)
    return (
        not protocol_of(request).sampled
        or parameters.get("do_sample") is False
        or parameters.get("temperature") == 0
        or parameters.get("top_k") == 1
    )


class PreparedExperiment(Struct, frozen=True, kw_only=True):
    """An experiment that can start.

    `identity` is the run's, `identities` are those of each arm's servers. `findings` and `notes`
    are what a person should know before the first start.
    """

    request: ExperimentRequest
    plan: ExperimentPlan
    identity: RunIdentity
    identities: Mapping[Arm, Identity]
    context: Context
    pace: Pace
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    redactor: Redactor
    repository: Checkout | None
    archive: "RunArchive | None"

    def service_environments(self) -> Iterator[Mapping[str, str]]:
        """The variables of every service: they may hold secrets that our own environment lacks."""
        return _service_environments(self.plan)

    def until(self, deadline: float | None) -> "PreparedExperiment":
        """The same with the deadline that the starts have left, if they moved it."""
        if deadline is None:
            return self
        plan = replace(self.plan, deadline=deadline)
        return replace(self, plan=plan, pace=replace(self.pace, deadline=deadline))

    def archived(self, outputs: Outputs) -> tuple[StartResult, ...]:
        """The baseline starts of earlier builds that stand beside those of this run."""
        return self.archive.results(outputs) if self.archive else ()


def prepare(
    request: ExperimentRequest, directory: Path, environment: Mapping[str, str]
) -> PreparedExperiment:
    """Find everything that is wrong before anything is started. Raises UsageError.

    `directory` is the report directory. Nothing is written.
    """
    settings = request.settings
    if settings.requests is None:
        raise UsageError(
            "no requests file is named",
            hint='give --requests FILE, or requests = "…" in [correctness]',
        )
    file = Path(settings.requests)
    requests = read_requests(file, request.only)
    began = clock.now() if request.began is None else request.began
    budget, budget_note = budget_of(settings, environment, began, clock.now())
    made = plan(
        settings,
        request.config,
        requests,
        budget=budget,
        directory=directory.absolute(),
        environment=environment,
    )
    # After the plan: the services have variables of their own.
    redactor = Redactor.from_environment(environment, *_service_environments(made))
    identities = {arm: identity_of(made, arm, redactor, settings.archive_ignore) for arm in Arm}
    archive = _run_archive(settings, made, identities[Arm.BASELINE], redactor)
    rules = archive.raised(made.rules, environment) if archive else made.rules
    is_archived = archive is not None and archive.matches.builds >= rules.archive_builds
    if is_archived and rules.policy is Policy.CONTROL:
        rules = widened(rules, archived=True)
    rules = with_order(rules, settings.seed, directory if request.resume else None)
    made = replace(made, rules=rules)
    # Another commit is another experiment, and is not resumed.
    repository = checkout(Path.cwd())
    one_request = shlex.join(["ci-doctor", *request.argv, "--only"])
    return PreparedExperiment(
        request=request,
        plan=made,
        identity=identify(made, {"commit": repository.commit if repository else None}),
        identities=identities,
        context=run_context(requests, os.path.relpath(file), one_request, str(directory)),
        pace=Pace(rules=rules, archived=is_archived, began=made.started, deadline=made.deadline),
        findings=(
            *sampling_findings(made.requests, file),
            *(archive.findings() if archive else ()),
        ),
        notes=tuple(_notes(settings, made, budget_note, archive)),
        redactor=redactor,
        repository=repository,
        archive=archive,
    )


def _service_environments(made: ExperimentPlan) -> Iterator[Mapping[str, str]]:
    for arm in made.arms.values():
        for spec in arm.specs.values():
            yield spec.env


def _run_archive(
    settings: CorrectnessSettings, made: ExperimentPlan, identity: Identity, redactor: Redactor
) -> "RunArchive | None":
    if settings.archive is None:
        return None
    from ci_doctor.correctness.archive.archive import Archive, archive_place
    from ci_doctor.correctness.archive.run_archive import RunArchive

    try:
        limit = parse_size(settings.archive_limit)
    except ValueError as error:
        raise UsageError(f"archive_limit: {error}", hint='write archive_limit = "1GiB"') from error
    place = archive_place(settings.archive)
    archive = Archive(place, days=settings.archive_days, limit=limit, redactor=redactor)
    matches = archive.find(identity, made.ids, made.passes)
    return RunArchive(
        archive=archive, identity=identity, matches=matches, write=settings.archive_write
    )


def _notes(
    settings: CorrectnessSettings,
    made: ExperimentPlan,
    budget_note: str,
    archive: "RunArchive | None",
) -> Iterator[str]:
    if budget_note:
        yield budget_note
    if archive:
        yield from archive.notes()
    if note := widening(settings, made.rules):
        yield note
    if made.places:
        how = "two starts at once" if at_once(made.places) > 1 else "each start"
        yield f"devices: {how}, on {' and '.join(made.places)}"
