# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: the starts of an experiment as jobs of a Buildkite build, and the decision over what they leave.

The experiment is the one of `run`: its order is drawn, its looks are planned, and `judge` decides. Only who makes a
start differs. A job makes two neighbours of the drawn order on one agent. The step after these jobs decides over all
evidence so far. It asks for the rest of the block if the verdict is open, and so on.
"""

import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.agent import ApiTime
from ci_doctor.buildkite.fan_out import (
    Asked,
    BuildSteps,
    Evidence,
    Gathered,
    NotEvidenceError,
    Origin,
    gather,
    leave,
)
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.steps import TASK_VARIABLE, StepTemplate, job_step
from ci_doctor.correctness import rules
from ci_doctor.correctness.evidence.resume import reread
from ci_doctor.correctness.evidence.run_identity import STARTS, identify
from ci_doctor.correctness.planning import PreparedExperiment
from ci_doctor.correctness.results import (
    SAMPLES,
    Experiment,
    ExperimentEnding,
    SameAnswers,
    Tally,
    unusable,
)
from ci_doctor.correctness.run import OnProgress, begin, conclude, judge, make_experiment
from ci_doctor.correctness.settings import Arm, CorrectnessSettings
from ci_doctor.correctness.verdict.schedule import next_arms
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.identity.identity import Identity, differences
from ci_doctor.load.canonical import digest
from ci_doctor.model.finding import Evidence as Excerpt
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import text_table
from ci_doctor.model.verdict import Verdict, is_green
from ci_doctor.render.formatting import amount
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.system.files.own_directory import own_directory
from ci_doctor.system.files.writing import make_directory
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.version import tool_version

# The places in the drawn order, from 0 on, of the starts that one job makes.
Pair = tuple[int, ...]
_IN_A_JOB = 2
# How the keys of uploaded steps begin; their labels are the same.
_KEY = "ci-doctor-fan-out-"
# A pair that two jobs have lost is not asked for again.
_MOST_TRIES = 2


class Task(Struct, frozen=True, kw_only=True):
    """What a job is asked for: a pair of the last wave, or to decide over all `waves`.

    `began` is the job that drew the `seed`, `plan` the digest of what all jobs work on. A wave is a step, and its pairs
    are that step's jobs, in the order of their numbers.
    """

    plan: str
    began: str
    seed: int
    waves: tuple[tuple[Pair, ...], ...]
    decides: bool = False

    def key(self, wave: int) -> str:
        """The key of the step of a wave."""
        return f"{_KEY}{self.plan[:12]}-starts-{wave + 1}"

    def asked(self, build: str) -> Asked:
        """The steps that were asked for each pair."""
        steps: dict[str, tuple[str, ...]] = {}
        for number, wave in enumerate(self.waves):
            for pair in wave:
                steps[_name(pair)] = (*steps.get(_name(pair), ()), self.key(number))
        return Asked(build=build, plan=self.plan, steps=steps)


def _name(pair: Pair) -> str:
    return "-".join(str(place + 1) for place in (pair[0], pair[-1])[: len(pair)])


def read_task(environ: Mapping[str, str]) -> Task | None:
    """What the job of `environ` is asked for; None for one that begins. Raises UsageError."""
    text = environ.get(TASK_VARIABLE)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=decodable(Task))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(
            f"{TASK_VARIABLE} is no task of this ci-doctor: {error}",
            hint="use one version of ci-doctor in all jobs, and do not set the variable yourself",
        ) from error


def settings_of(settings: CorrectnessSettings, environ: Mapping[str, str]) -> CorrectnessSettings:
    """The settings of one job of the experiment: its order is that of all. Raises UsageError."""
    for name, value in (("devices", settings.devices), ("archive", settings.archive)):
        if value:
            raise UsageError(
                f"fan_out: `{name}` belongs to one machine", hint=f"leave {name} or fan_out out"
            )
    task = read_task(environ)
    seed = settings.seed if task is None else task.seed
    # It would start servers on the agent that decides.
    return replace(settings, seed=seed, localise=False)


def plan_digest(prepared: PreparedExperiment, began: str) -> str:
    """What all jobs must agree on: requests, commands, settings, order, commit, version, and the job that began.

    What an agent adds to the environment is no part of it: that makes another kind of agent. Neither is where its
    checkout lies.
    """
    plan = prepared.plan
    roots = (plan.environment.get("BUILDKITE_BUILD_CHECKOUT_PATH"), str(plan.services_directory))

    def anywhere(text: str) -> str:
        for root in filter(None, roots):
            text = text.replace(root, ".")
        return text

    def moved(spec: ServiceSpec) -> ServiceSpec:
        words = [anywhere(word) for word in spec.words()]
        env = {name: anywhere(value) for name, value in spec.env.items()}
        return replace(spec, command=words, cwd=spec.cwd and anywhere(spec.cwd), env=env)

    arms = {
        arm: replace(each, specs={name: moved(spec) for name, spec in each.specs.items()})
        for arm, each in plan.arms.items()
    }
    own = identify(replace(plan, arms=arms, environment={}))
    identity = msgspec.to_builtins(replace(prepared.identity, hashes=own.hashes))
    limits = list(plan.rules.limits)
    return digest(
        {"identity": identity, "limits": limits, "version": tool_version(), "began": began}
    )


def pairs_of(first: int, last: int) -> tuple[Pair, ...]:
    """The places from `first` to before `last`, two for each job. Pure."""
    places = range(first, last)
    return tuple(
        tuple(places[begin : begin + _IN_A_JOB]) for begin in range(0, len(places), _IN_A_JOB)
    )


def run_fanned_out(
    prepared: PreparedExperiment,
    environ: Mapping[str, str],
    on_progress: OnProgress,
    interruption: Interruption,
) -> Outcome:
    """What this job does of the experiment. Only the last one has a verdict.

    Raises UsageError outside a Buildkite job, and for a job that works on something else than the one that asked;
    InfraError if steps or evidence cannot be uploaded or gathered.
    """
    running = JobEnvironment.from_environ(environ)
    # The verdict depends on it, so it does not share the seconds of what is only reported.
    agent = BuildSteps.find(environ, api_time=ApiTime())
    if running is None or running.build_id is None or agent is None:
        raise UsageError(
            "fan_out: this is no job of a Buildkite build, or buildkite-agent is not on PATH",
            hint="write --fan-out local:N, or leave it out",
        )
    task = read_task(environ)
    began = running.job_id if task is None else task.began
    plan = plan_digest(prepared, began)
    if task is None:
        # Else each job that is asked would ask others.
        if any((name or "").startswith(_KEY) for name in (running.step_key, running.label)):
            raise UsageError(
                f"{TASK_VARIABLE} did not reach the command of a step that ci-doctor has uploaded",
                hint=f"let the container of the step have it: environment = [{TASK_VARIABLE}] of its plugin",
            )
        task = Task(plan=plan, began=began, seed=prepared.plan.rules.seed, waves=())
        arms = next_arms((), prepared.plan.ids, prepared.plan.rules, prepared.plan.rules.max_starts)
        return _hand_on(
            prepared, _Job(agent=agent, environ=environ, task=task), pairs_of(0, len(arms))
        )
    if task.plan != plan:
        raise UsageError(
            "this job is asked for starts of another experiment: the requests, a command, a setting, the commit or "
            "the version of ci-doctor differs from those of the job that asked",
            hint="let all jobs check out one commit, and use one fan-out in a step",
        )
    job = _Job(agent=agent, environ=environ, task=task)
    if task.decides:
        with own_directory("evidence") as folder:
            gathered = gather(agent, Path(folder), task.asked(running.build_id))
        return _decide(prepared, job, gathered)
    number = running.parallel_job or 0
    if not task.waves or number >= len(task.waves[-1]):
        raise UsageError(
            f"{TASK_VARIABLE} has no starts for parallel job {number}",
            hint="leave the parallelism of uploaded steps as it is",
        )
    return _make(prepared, job, task.waves[-1][number], on_progress, interruption)


class _Job(Struct, frozen=True, kw_only=True):
    """The running job: its agent, its variables, and what it is asked for."""

    agent: BuildSteps
    environ: Mapping[str, str]
    task: Task


def _hand_on(prepared: PreparedExperiment, job: _Job, wave: tuple[Pair, ...]) -> Outcome:
    """Ask for these pairs, and for a decision after them."""
    task = replace(job.task, waves=(*job.task.waves, wave))
    key = task.key(len(task.waves) - 1)
    deciding = key.replace("-starts-", "-decides-")

    def words(*, decides: bool) -> str:
        return msgspec.json.encode(replace(task, decides=decides)).decode()

    template = prepared.request.settings.step or StepTemplate()
    steps = [
        job_step(template, job.environ, key=key, task=words(decides=False), jobs=len(wave)),
        job_step(StepTemplate(), job.environ, key=deciding, task=words(decides=True), after=key),
    ]
    result = job.agent.upload_steps(steps)
    if not result.ok:
        raise InfraError(
            f"no further job can be asked for: {result.message}", hint="retry this job"
        )
    starts = sum(map(len, wave))
    return Outcome(
        verdict=None,
        summary=f"{amount(starts, 'start')} in {amount(len(wave), 'job')} of the step {key}; "
        f"the step {deciding} decides",
    )


# --- a job that makes starts ---


class _Contents(Struct, frozen=True, kw_only=True):
    """The first line of a pair's evidence: the identity of each arm here, and the lengths of what follows.

    `host` is the agent. `is_outside`: something outside the change has ended a start.
    """

    arms: Mapping[Arm, Identity]
    host: str = ""
    is_outside: bool = False
    starts: int
    samples: int
    logs: Mapping[str, int] = {}


# Of the end of each log: what a person looks at first.
_LOG_BYTES = 1 << 20


def _make(
    prepared: PreparedExperiment,
    job: _Job,
    pair: Pair,
    on_progress: OnProgress,
    interruption: Interruption,
) -> Outcome:
    given = starts_at(prepared.pace.order, pair)
    prepared = replace(prepared, plan=replace(prepared.plan, given=given))
    experiment = make_experiment(prepared, begin(prepared), on_progress, interruption)
    if experiment.ending.is_signal:
        return conclude(prepared, experiment, judge(prepared, experiment))
    made = [result for result in experiment.results if result.counts]
    names = in_words(prepared.pace.order, pair)
    if len(made) < len(given):
        raise InfraError(
            f"the budget ended before {names} were made",
            hint="write a larger --budget, or a larger `timeout` in [correctness.step]",
        )
    origin = Origin.of(job.environ, plan=job.task.plan, task=_name(pair))
    body = pair_evidence(
        prepared.plan.directory,
        prepared.identities,
        host=job.environ.get("BUILDKITE_AGENT_NAME") or platform.node(),
        is_outside=any(each.start.outside and not each.start.claimed for each in made),
    )
    path = leave(job.agent, origin, body)
    return Outcome(verdict=None, summary=f"made {names}; their evidence is {path}")


def starts_at(order: Sequence[Arm], pair: Sequence[int]) -> tuple[tuple[Arm, int], ...]:
    """The arm and number of the start at each place of the order. Pure."""
    return tuple((order[place], order[: place + 1].count(order[place])) for place in pair)


def in_words(order: Sequence[Arm], pair: Pair) -> str:
    """The names of a pair's starts: `A1 and B1`. Pure."""
    return " and ".join(f"{arm.letter}{number}" for arm, number in starts_at(order, pair))


def pair_evidence(
    directory: Path, identities: Mapping[Arm, Identity], host: str = "", *, is_outside: bool = False
) -> bytes:
    """What the starts in a report directory left, without secrets, as one text."""
    starts, samples = ((directory / name).read_bytes() for name in (STARTS, SAMPLES))
    logs = {
        str(path.relative_to(directory)): path.read_bytes()[-_LOG_BYTES:]
        for path in sorted(directory.glob("logs/*/*.log"))
    }
    contents = _Contents(
        arms=identities,
        host=host,
        is_outside=is_outside,
        starts=len(starts),
        samples=len(samples),
        logs={name: len(log) for name, log in logs.items()},
    )
    return b"".join([msgspec.json.encode(contents), b"\n", starts, samples, *logs.values()])


# --- the job that decides ---


class PairEvidence(Struct, frozen=True, kw_only=True):
    """The evidence of one pair, apart: lines of starts.jsonl and samples.jsonl, and logs by their names."""

    arms: Mapping[Arm, Identity]
    starts: bytes
    samples: bytes
    logs: Mapping[str, bytes]
    origin: Origin
    host: str = ""
    is_outside: bool = False

    @classmethod
    def read(cls, evidence: Evidence) -> "PairEvidence":
        """That of a job. Raises NotEvidenceError."""
        line, _, rest = evidence.body.partition(b"\n")
        try:
            contents = msgspec.json.decode(line, type=decodable(_Contents))
        except (msgspec.DecodeError, UnicodeError) as error:
            raise NotEvidenceError(f"its first line is another one: {error}") from error
        sizes = [contents.starts, contents.samples, *contents.logs.values()]
        if min(sizes) < 0 or sum(sizes) != len(rest):
            raise NotEvidenceError("its parts have other lengths")
        ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
        starts, samples, *logs = (
            rest[end - size : end] for end, size in zip(ends, sizes, strict=True)
        )
        names = dict(zip(contents.logs, logs, strict=True))
        return cls(
            arms=contents.arms,
            starts=starts,
            samples=samples,
            logs=names,
            origin=evidence.origin,
            host=contents.host,
            is_outside=contents.is_outside,
        )

    def agent(self) -> str:
        """The kind of agent: GPU or CPU, driver, and a digest of all that may decide the bits of an answer."""
        facts = {
            f"{arm} {name}": value
            for arm, identity in self.arms.items()
            for name, value in {
                **identity.facts,
                **dict.fromkeys(identity.unknown, "unknown"),
            }.items()
            # Each device has its own, also one of the same kind.
            if not name.endswith(".uuid")
        }
        unread = {name for identity in self.arms.values() for name in identity.unknown}
        if any(name.startswith(("gpu", "driver", "cpu")) for name in unread):
            # Nobody knows that another agent is of this kind.
            facts["host"] = self.host
        baseline = self.arms[Arm.BASELINE].facts
        name = baseline.get("gpu0.name") or baseline.get("cpu.model", "unknown CPU")
        driver = f", driver {baseline['driver']}" if "driver" in baseline else ""
        return f"{name}{driver} ({digest(facts)[:6]})"


class AssembledEvidence(Struct, frozen=True, kw_only=True):
    """All evidence as an experiment: the pairs without any are `lost`, with a sentence for what does not count.

    `repeated` are sentences about whole evidence beside the one that counts.
    """

    experiment: Experiment
    lost: tuple[Pair, ...]
    parts: Mapping[Pair, PairEvidence]
    refused: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()


def assemble(prepared: PreparedExperiment, task: Task, gathered: Gathered) -> AssembledEvidence:
    """Put the evidence of all pairs into the report directory, in the drawn order, and read it as a run's own."""
    plan = prepared.plan
    begin(prepared)
    pairs = sorted({pair for wave in task.waves for pair in wave})
    words = {pair: in_words(prepared.pace.order, pair) for pair in pairs}
    parts: dict[Pair, PairEvidence] = {}
    refused: list[str] = []
    repeated: list[str] = []
    for pair in pairs:
        read: list[PairEvidence] = []
        for evidence in gathered.evidence.get(_name(pair), ()):
            try:
                read.append(PairEvidence.read(evidence))
            except NotEvidenceError as error:
                refused.append(f"{words[pair]} of job {evidence.origin.job}: {error}")
        if read:
            # The first, or whoever repeats jobs could choose among answers. Only one that was ended from outside has none.
            part = next((each for each in read if not each.is_outside), read[0])
            parts[pair] = part
            repeated += [
                f"{words[pair]}: job {each.origin.job}, beside {part.origin.job}"
                for each in read
                if each is not part
            ]
    _write(plan.directory, list(parts.values()))
    finished = reread(plan.directory, ids=plan.ids, passes=plan.passes, requests=plan.requests)
    refused += finished.again
    by_name = {result.start.name: result for result in finished.results}
    same = SameAnswers(plan.comparison, finished.outputs)
    results = []
    for pair in [*parts]:
        names = [f"{arm.letter}{number}" for arm, number in starts_at(prepared.pace.order, pair)]
        if not by_name.keys() >= set(names) or parts[pair].starts.count(b"\n") != len(names):
            refused.append(f"job {parts[pair].origin.job} does not hold {words[pair]}")
            del parts[pair]
            continue
        agent = parts[pair].agent()
        for name in names:
            result = by_name[name]
            results.append(replace(result, start=replace(result.start, agent=agent)))
    return AssembledEvidence(
        experiment=Experiment(
            results=tuple(map(same.at_gate, results)),
            outputs=finished.outputs,
            ending=ExperimentEnding.COMPLETE,
            rules=plan.rules,
            comparison=plan.comparison,
        ),
        lost=tuple(pair for pair in pairs if pair not in parts),
        parts=parts,
        refused=tuple(refused),
        repeated=tuple(repeated),
    )


def _write(directory: Path, parts: Sequence[PairEvidence]) -> None:
    try:
        make_directory(directory)
        for name, texts in (
            (STARTS, [each.starts for each in parts]),
            (SAMPLES, [each.samples for each in parts]),
        ):
            (directory / name).write_bytes(b"".join(texts))
        for part in parts:
            for name, log in part.logs.items():
                start, file = Path(name).parent.name, Path(name).name
                # Another job named it: it stays below `logs`.
                if start != "..":
                    make_directory(directory / "logs" / start)
                    (directory / "logs" / start / file).write_bytes(log)
    except OSError as error:
        raise InfraError(
            f"cannot write the evidence to {directory}: {error.strerror}",
            hint="free some disk space",
        ) from error


def next_wave(
    prepared: PreparedExperiment, task: Task, assembled: AssembledEvidence
) -> tuple[Pair, ...]:
    """The pairs to ask for: those that were lost once, else the rest of the block; none if it can be decided. Pure."""
    asked = [pair for wave in task.waves for pair in wave]
    if assembled.lost:
        is_over = any(asked.count(pair) >= _MOST_TRIES for pair in assembled.lost)
        return () if is_over else assembled.lost
    experiment, plan = assembled.experiment, prepared.plan
    if unusable(experiment.results, plan.arms):
        return ()
    made = len(experiment.results)
    arms = next_arms(experiment.starts, plan.ids, plan.rules, plan.rules.max_starts)
    return pairs_of(made, made + len(arms))


def with_lost(prepared: PreparedExperiment, assembled: AssembledEvidence) -> Experiment:
    """The experiment with a start that was ended from outside in the place of each lost one.

    So all others stay in the blocks for which their labels were drawn. Pure.
    """
    made = {result.start.name: result for result in assembled.experiment.results}
    for pair in assembled.lost:
        for arm, number in starts_at(prepared.pace.order, pair):
            plan = prepared.plan
            tally = Tally(arm=arm, number=number, ids=plan.ids, passes=plan.passes)
            start = tally.start(failed=True, outside=True)
            made[start.name] = tally.result(start=start)
    places = starts_at(prepared.pace.order, range(len(made)))
    results = tuple(made[f"{arm.letter}{number}"] for arm, number in places)
    return replace(assembled.experiment, results=results)


def without_lost(decision: Decision, lost: Sequence[str]) -> Decision:
    """A decision over evidence of which some is lost, in words: never green. Pure."""
    # Nothing resumes such a run.
    decision = replace(decision, settle=None, step=None)
    is_open = decision.verdict is Verdict.INCONCLUSIVE
    if not lost or not (is_open or is_green(decision.verdict)):
        return decision
    reason = (
        f"{', '.join(lost)} were lost in two jobs, and what they would have answered is unknown"
    )
    if is_open:
        reason = f"{decision.reason}; {reason}"
    return Decision(verdict=Verdict.INCONCLUSIVE, reason=reason, kinds=decision.kinds)


_NEXT = (
    "Begin anew with the first step of this build: with more starts (`--max-starts`), on agents of one kind "
    "(`[correctness.step]`), or with a steadier baseline (`ci-doctor setup-env --determinism strict`)."
)


def _decide(prepared: PreparedExperiment, job: _Job, gathered: Gathered) -> Outcome:
    task = job.task
    assembled = assemble(prepared, task, gathered)
    if assembled.lost and gathered.problems:
        raise InfraError(
            f"the evidence cannot be gathered: {'; '.join(gathered.problems[:3])}",
            hint="retry this job",
        )
    wave = next_wave(prepared, task, assembled)
    if wave:
        return replace(
            _hand_on(prepared, job, wave),
            findings=tuple(_findings(prepared.pace.order, task, gathered, assembled)),
        )
    for part in assembled.parts.values():
        # This agent may be of another kind than those that made starts.
        prepared = replace(prepared, identities=part.arms)
        break
    order = prepared.pace.order
    decision = judge(prepared, with_lost(prepared, assembled))
    decision = without_lost(decision, [in_words(order, pair) for pair in assembled.lost])
    outcome = conclude(prepared, assembled.experiment, decision)
    return replace(
        outcome,
        tables=(
            *outcome.tables,
            text_table(title="Jobs", lines=tuple(job_lines(order, assembled))),
        ),
        findings=(
            # Nothing resumes this run.
            *(
                replace(each, remedy=_NEXT) if each.rule == rules.INCONCLUSIVE.id else each
                for each in outcome.findings
            ),
            *_findings(order, task, gathered, assembled),
        ),
    )


def job_lines(order: Sequence[Arm], assembled: AssembledEvidence) -> Iterator[str]:
    """Which job made which starts, on which kind of agent, and in which facts the kinds differ. Pure."""
    kinds: dict[str, PairEvidence] = {}
    for pair, part in assembled.parts.items():
        kinds.setdefault(part.agent(), part)
        yield f"{in_words(order, pair)}: job {part.origin.job} on {part.agent()}"
    first, *others = kinds or [""]
    for other in others:
        facts = dict.fromkeys(
            each.describe()
            for arm in Arm
            for each in differences(kinds[first].arms[arm], kinds[other].arms[arm])
            if not each.fact.endswith(".uuid")
        )
        words = ", ".join(facts) or "no fact that can be read"
        yield f"{first} and {other} differ in {words}"
    yield from (f"not counted, another attempt of {each}" for each in assembled.repeated)


def _findings(
    order: Sequence[Arm], task: Task, gathered: Gathered, assembled: AssembledEvidence
) -> Iterator[Finding]:
    """What was lost or refused, also if another job has replaced it."""
    asked = [pair for wave in task.waves for pair in wave]
    again = sorted({pair for pair in asked if asked.count(pair) > 1} | set(assembled.lost))
    refused = (*gathered.refused, *assembled.refused)
    if not again and not refused:
        return
    rule = rules.FAN_OUT
    yield rule.finding(
        f"{amount(len(again), 'pair')} of starts lost, {amount(len(refused), 'file')} refused",
        evidence=tuple(
            Excerpt(excerpt=each)
            for each in (
                *(f"{in_words(order, pair)}: no whole evidence of one job" for pair in again),
                *refused[:20],
            )
        ),
        remedy=rule.remedy,
    )
