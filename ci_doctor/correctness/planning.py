# SPDX-License-Identifier: Apache-2.0
"""Reads settings, requests, archive and machine: the plan of a run, and all else before its first start."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs
from msgspec.structs import replace

from ci_doctor.config.decoding import decode_section, path_in, seconds_above_zero
from ci_doctor.config.loading import Config
from ci_doctor.correctness import rules
from ci_doctor.correctness.devices import CORES, at_once, local_sets, placeholders, places_of
from ci_doctor.correctness.evidence.run_identity import RunIdentity, identify, with_order
from ci_doctor.correctness.evidence.samples import Outputs
from ci_doctor.correctness.pace import Budget, Pace, budget_of, command_line
from ci_doctor.correctness.report.findings import Context, run_context
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import (
    Arm,
    ArmPlan,
    ArmSettings,
    CorrectnessSettings,
    ExperimentPlan,
    Policy,
    Proof,
    Rules,
    read_comparison,
)
from ci_doctor.correctness.verdict.looks import widened
from ci_doctor.errors import UsageError
from ci_doctor.git import Checkout, checkout
from ci_doctor.identity.identity import Identity
from ci_doctor.identity.read import Served, read_identity
from ci_doctor.load.prompts import parameters_of
from ci_doctor.load.requests import Request, protocol_of, read_requests, require_file
from ci_doctor.load.sending import parse_selector
from ci_doctor.machine.gpus import can_read_gpu_memory
from ci_doctor.model.outcome import Evidence, Finding
from ci_doctor.model.words import did_you_mean, parse_size
from ci_doctor.services.check import check_scripts, check_services
from ci_doctor.services.spec import LaunchContext, ServiceSpec, service_specs, start_order
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor

if TYPE_CHECKING:
    from ci_doctor.correctness.archive.run_archive import RunArchive


def read_settings(
    loaded: Config,
    environment: Mapping[str, str],
    flags: Mapping[str, Any],
    variables: Mapping[Arm, Mapping[str, str]],
) -> CorrectnessSettings:
    """The `[correctness]` section under the command line's `flags`.

    A flag named like an arm holds a command, which replaces the configured services of that arm;
    `variables` go on top of both. Paths are relative to the working directory. Raises ConfigError.
    """
    flags = dict(flags)
    if flags.get("devices"):
        flags["devices"] = tuple(flags["devices"].split(","))
    commands = {arm: flags.pop(arm.value, None) for arm in Arm}
    settings, origins = decode_section(
        loaded, "correctness", CorrectnessSettings, environ=environment, flags=flags
    )
    # What was typed comes first: whatever a file lacks, it is wrong.
    _check_values(settings)
    changes: dict[str, ArmSettings | str] = {}
    for name in ("requests", "archive", "archive_key", "archive_signers"):
        path = getattr(settings, name)
        # The address of an object store is no path.
        if path is not None and "://" not in path:
            changes[name] = str(path_in(loaded, origins[name], path))
    if settings.requests is not None:
        file = path_in(loaded, origins["requests"], settings.requests)
        require_file(Path(os.path.relpath(file)), origins["requests"])
    for arm in Arm:
        chosen = settings.arm(arm)
        if command := commands[arm]:
            # An arm with both is refused; the command line wins over a file.
            chosen = structs.replace(chosen, command=command, services=())
        changes[arm.value] = structs.replace(chosen, env={**chosen.env, **variables[arm]})
    return structs.replace(settings, **changes)


def _check_values(settings: CorrectnessSettings) -> None:
    """Raises UsageError for a value that is wrong whatever is started and asked."""
    rules_of(settings)
    read_comparison(settings.compare, settings.limit)
    seconds_above_zero(settings.request_timeout, "request_timeout")
    if settings.budget is not None:
        seconds_above_zero(settings.budget, "budget")


def parse_arm_variables(words: Sequence[str]) -> dict[Arm, dict[str, str]]:
    """The variables of each arm from words `ARM:NAME=VALUE`. Raises UsageError."""
    variables: dict[Arm, dict[str, str]] = {arm: {} for arm in Arm}
    for word in words:
        arm, _, assignment = word.partition(":")
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise UsageError(
                f"--env {word}: not ARM:NAME=VALUE",
                hint="write --env candidate:VLLM_LOGGING_LEVEL=DEBUG",
            )
        if arm not in set(Arm):
            raise UsageError(
                f"--env {word}: unknown arm `{arm}`", hint=did_you_mean(arm, list(Arm))
            )
        variables[Arm(arm)][name] = value
    return variables


# The path of a URL in printable ASCII; `//host` would be another server.
_PATH = re.compile(r"/(?!/)[!-~]*")


def arm_plan(
    arm: Arm, settings: CorrectnessSettings, specs: Mapping[str, ServiceSpec], loaded: Config
) -> ArmPlan:
    """The plan of one arm; `specs` are the configured services. Raises UsageError."""
    chosen = settings.arm(arm)
    names = chosen.services
    if not (names or chosen.command):
        raise UsageError(
            f"the {arm} is missing: nothing says how to start it",
            hint=f"give --{arm} 'CMD … {{port}}', or services = […] in [correctness.{arm}]",
        )
    if names and chosen.command:
        where = loaded.where("correctness", arm.value)
        raise UsageError(
            f"{where}: the {arm} has both `services` and `command`", hint="keep one of them"
        )
    reset = chosen.reset or settings.reset
    if reset is not None and not _PATH.fullmatch(reset):
        where = loaded.where("correctness", arm.value, "reset")
        raise UsageError(
            f"{where}: `{reset}` is not the path of a URL",
            hint='write reset = "/reset_prefix_cache"',
        )
    if chosen.command:
        # The service bears the name of the arm, which cannot clash: it is the only one.
        specs = {arm.value: ServiceSpec(command=chosen.command)}
        names = (arm.value,)
    for name in names:
        if name not in specs:
            where = loaded.where("correctness", arm.value, "services")
            raise UsageError(
                f"{where}: no service is named `{name}`", hint=did_you_mean(name, specs)
            )
    own_specs = {
        name: _spec(spec, chosen, settings, answers=name == names[-1])
        for name, spec in specs.items()
    }
    return ArmPlan(
        specs=own_specs,
        names=tuple(names),
        proof=tuple(_checked_proof(arm, chosen, names, loaded)),
        reset=reset,
    )


def _checked_proof(
    arm: Arm, chosen: ArmSettings, names: Sequence[str], loaded: Config
) -> Iterator[Proof]:
    """The proofs of an arm, with `metric` as a name alone: `hits{kind="hit"}` names labels too."""
    where = loaded.where("correctness", arm.value, "proof")
    for proof in chosen.proof:
        if (proof.metric is None) == (proof.log is None):
            raise UsageError(
                f"{where}: a proof has either `metric` or `log`",
                hint='write { metric = "…", above = 0 }',
            )
        wrong = "at_start" if proof.at_start and proof.log is None else ""
        wrong = wrong or ("labels" if proof.labels and proof.metric is None else "")
        if wrong:
            raise UsageError(f"{where}: `{wrong}` does not belong there", hint=f"remove `{wrong}`")
        if proof.service is not None and proof.service not in names:
            raise UsageError(
                f"{where}: the {arm} starts no service `{proof.service}`",
                hint=did_you_mean(proof.service, names),
            )
        try:
            re.compile(proof.log or "")
            name, labels = parse_selector(proof.metric) if proof.metric else (None, {})
        except re.error as error:
            raise UsageError(f"{where}: /{proof.log}/ is no regular expression: {error}") from error
        except ValueError as error:
            hint = """write { metric = "hits", labels = { kind = "hit" } }"""
            raise UsageError(f"{where}: {error}", hint=hint) from error
        yield structs.replace(proof, metric=name, labels={**labels, **proof.labels})


def _spec(
    spec: ServiceSpec, chosen: ArmSettings, settings: CorrectnessSettings, *, answers: bool
) -> ServiceSpec:
    """A service with the settings of the arm and of the command line on top.

    `ready` is for the service that `answers` the requests.
    """
    changes: dict[str, object] = {"env": {**spec.env, **chosen.env}}
    if settings.start_timeout is not None:
        changes["start_timeout"] = settings.start_timeout
    if settings.ready is not None and answers:
        changes["ready"] = settings.ready
    # A start that finds the memory of the one before still in use differs from it.
    if "gpu-memory" not in spec.released and can_read_gpu_memory():
        changes["released"] = [*spec.released, "gpu-memory"]
    return structs.replace(spec, **changes)


# Four and five starts separate the arms with p = 1/70 in the blocks 1+1 and 3+4: fewer cannot reach
# alpha = 0.025.
FEWEST_STARTS = 9


def plan(  # noqa: PLR0913
    settings: CorrectnessSettings,
    loaded: Config,
    requests: tuple[Request, ...],
    *,
    budget: Budget,
    directory: Path,
    environment: Mapping[str, str],
    further: Mapping[str, str] = MappingProxyType({}),
) -> ExperimentPlan:
    """The plan of an experiment; `further` placeholders stand in its commands. Raises UsageError for what cannot work."""
    specs = service_specs(loaded)
    arms = {arm: arm_plan(arm, settings, specs, loaded) for arm in Arm}
    sets = local_sets(settings.fan_out)
    places = places_of(settings.devices, arms, environment, sets)
    made = ExperimentPlan(
        arms=arms,
        requests=requests,
        rules=rules_of(settings),
        concurrency=settings.concurrency,
        passes=settings.passes,
        caches=settings.caches,
        shared=settings.shared,
        request_timeout_s=seconds_above_zero(settings.request_timeout, "request_timeout"),
        comparison=read_comparison(settings.compare, settings.limit),
        started=budget.began,
        deadline=budget.deadline,
        may_take_longer=budget.is_assumed,
        grace_s=budget.grace_s,
        directory=directory,
        services_directory=loaded.directory,
        environment=environment,
        control=settings.control,
        places=places,
        at_once=at_once(places, sets),
        placeholders=further,
    )
    _check_services(made)
    return made


def rules_of(settings: CorrectnessSettings) -> Rules:
    """The rules of the verdict. Raises UsageError for limits within which nothing can be decided.

    At least as many candidate starts are made as must answer before a pass. If those leave no
    regression to be decided within `max_starts`, more starts are allowed (see `widening`).
    """
    chosen = Rules(
        retries=max(settings.retries, settings.min_candidate_starts),
        alpha=settings.alpha,
        policy=settings.policy,
        least_candidates=settings.min_candidate_starts,
        least_baselines=settings.min_baseline_starts,
        archive_builds=settings.archive_builds,
        max_starts=settings.max_starts,
        seed=settings.seed or 0,
        evidence=settings.evidence,
    )
    # This policy makes `retries` pairs, and no test.
    if settings.policy is Policy.ANY:
        return chosen
    if settings.max_starts < FEWEST_STARTS:
        raise UsageError(
            f"max_starts: with {settings.max_starts} starts no regression can be declared, "
            f"because the exact test takes {FEWEST_STARTS} starts for a small enough p-value",
            hint=f"write {FEWEST_STARTS} or more; --budget bounds the time",
        )
    try:
        # Not beside an archive: whether it holds anything is not known yet, and it needs fewer.
        return widened(chosen, archived=False)
    except ValueError as error:
        raise UsageError(f"alpha: {error}", hint="write alpha = 0.001 or more") from error


def widening(settings: CorrectnessSettings, made: Rules) -> str | None:
    """That the limit of the starts is larger than the one that was written; None if it is not."""
    # A policy without a test, or a limit that is large enough.
    if made.max_starts == settings.max_starts:
        return None
    first = f"{made.least_baselines} baseline and {made.least_candidates} candidate starts first"
    return (
        f"max_starts is raised from {settings.max_starts} to {made.max_starts}: with {first}, "
        "fewer starts can decide no regression"
    )


def _check_services(made: ExperimentPlan) -> None:
    """Raises UsageError for services that cannot work."""
    # A script that the baseline runs is no typing error in the candidate: if it is not there, the
    # change has removed it.
    elsewhere: set[str] = set()
    for arm, planned in made.arms.items():
        context = LaunchContext(
            environment=made.environment,
            directory=made.services_directory,
            log_directory=made.directory / "logs",
            placeholders={
                "arm": arm.value,
                "start": "1",
                **placeholders(*made.places[:1]),
                **made.placeholders,
            },
        )
        order = check_services(planned.specs, planned.names, context)
        check_scripts(planned.specs, order, context, elsewhere)
        for name in order:
            elsewhere.update(planned.specs[name].words())


class ExperimentRequest(Struct, frozen=True, kw_only=True):
    """An experiment to make.

    `config` holds the services that the arms name. Relative paths in `settings` are relative to the
    working directory. `check_requests`: the requests are measured, and no candidate is started. `only` restricts the requests to these ids. `resume` continues the run in the
    report directory. `argv` are the words of a command line that does the same, for commands to
    paste; `began` is the monotonic time from which the budget counts, by default the call.
    `placeholders` are further words to replace in commands.
    """

    settings: CorrectnessSettings
    config: Config = Config(path=None, tables={})
    check_requests: bool = False
    only: tuple[str, ...] = ()
    resume: bool = False
    argv: tuple[str, ...] = ("correctness",)
    began: float | None = None
    placeholders: Mapping[str, str] = {}


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
    file = Path(os.path.relpath(settings.requests))
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
        further=request.placeholders,
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
    made = replace(made, rules=rules, check_requests=request.check_requests)
    # Another commit is another experiment, and is not resumed.
    repository = checkout(Path.cwd())
    # In a directory of its own: this run's report stays.
    apart = ["--report-dir", f"{directory}-one", "--only"]
    one_request = command_line(request.argv, apart)
    return PreparedExperiment(
        request=request,
        plan=made,
        identity=identify(made, {"commit": repository.commit if repository else None}),
        identities=identities,
        context=run_context(requests, str(file), one_request, str(directory), settings.concurrency),
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
    from ci_doctor.correctness.archive.archive import NAMESPACE, Archive, archive_place
    from ci_doctor.correctness.archive.run_archive import RunArchive
    from ci_doctor.store.signer import KEY_VARIABLE, load_signer, signer_from_text
    from ci_doctor.store.trust import AllowedSigners

    try:
        limit = parse_size(settings.archive_limit)
    except ValueError as error:
        raise UsageError(f"archive_limit: {error}", hint='write archive_limit = "1GiB"') from error
    place = archive_place(settings.archive)
    signer = None
    if settings.archive_key is not None:
        signer = load_signer(Path(settings.archive_key), NAMESPACE)
    elif text := made.environment.get(KEY_VARIABLE):
        signer = signer_from_text(text, KEY_VARIABLE, NAMESPACE)
    signers = settings.archive_signers
    archive = Archive(
        place,
        days=settings.archive_days,
        limit=limit,
        redactor=redactor,
        signer=signer,
        signers=None if signers is None else AllowedSigners.read(Path(signers)),
    )
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
        how = f"{made.at_once} starts at once" if made.at_once > 1 else "each start"
        what = "cores" if made.places[0].startswith(CORES) else "devices"
        yield f"{what}: {how}, on {' and '.join(each.removeprefix(CORES) for each in made.places)}"
