# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: what its jobs are asked for, and how one of them asks others.

An experiment asks for pairs of its drawn order, a search for starts at points. The job that asks draws the seed. All jobs
work on one plan, which is a digest.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ci_doctor.buildkite.agent import ApiTime
from ci_doctor.buildkite.fan_out import Asked, BuildSteps, Gathered, gather
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.steps import TASK_VARIABLE, StepTemplate, job_step
from ci_doctor.correctness.evidence.run_identity import identify
from ci_doctor.correctness.planning import PreparedExperiment
from ci_doctor.correctness.settings import Arm, CorrectnessSettings
from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.load.canonical import digest
from ci_doctor.model.outcome import Outcome
from ci_doctor.render.formatting import amount
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.system.files.access import own_directory
from ci_doctor.version import tool_version

# The places in the drawn order, from 0 on, of the starts that one job makes.
Pair = tuple[int, ...]
_IN_A_JOB = 2
# How the keys of uploaded steps begin; their labels are the same.
_KEY = "ci-doctor-fan-out-"
# A pair that two jobs have lost is not asked for again.
_MOST_TRIES = 2
_POINT_DIGITS = 12


class SearchPlace(Struct, frozen=True, kw_only=True):
    """A place in the order of a search: whose start it is, and the point of the search."""

    arm: Arm
    # In decimals: a subset of many settings is a large number.
    point: Annotated[str, Meta(pattern=r"^-?[0-9]+$")]


class Task(Struct, frozen=True, kw_only=True):
    """What a job is asked for: a pair of the last wave, or to decide over all `waves`.

    `began` is the job that drew the `seed`, `plan` the digest of what all jobs work on. A wave is a step, and its pairs
    are that step's jobs, in the order of their numbers. A search has `points`, the order of its starts so far, and is
    made on one `kind` of agent, that of its first evidence.
    """

    plan: str
    began: str
    seed: int
    waves: tuple[tuple[Pair, ...], ...]
    points: tuple[SearchPlace, ...] = ()
    kind: str = ""
    decides: bool = False

    def key(self, wave: int) -> str:
        """The key of the step of a wave."""
        return f"{_KEY}{self.plan[:12]}-starts-{wave + 1}"

    def asked(self, build: str) -> Asked:
        """The steps that were asked for each pair."""
        steps: dict[str, tuple[str, ...]] = {}
        for number, wave in enumerate(self.waves):
            for pair in wave:
                steps[self.name(pair)] = (*steps.get(self.name(pair), ()), self.key(number))
        return Asked(build=build, plan=self.plan, steps=steps)

    def name(self, pair: Pair) -> str:
        """The name of a pair's task; that of a search holds the digest of its point."""
        names = [str(place + 1) for place in (pair[0], pair[-1])[: len(pair)]]
        if self.points:
            names += [digest(self.points[place].point)[:_POINT_DIGITS] for place in pair]
        return "-".join(names)

    def order(self, prepared: PreparedExperiment) -> tuple[Arm, ...]:
        """The arm at each place."""
        return tuple(each.arm for each in self.points) or prepared.pace.order

    def lies_within(self, count: int) -> bool:
        """Whether each pair names starts, all of them among the first `count`."""
        pairs = [pair for wave in self.waves for pair in wave]
        return all(pair and 0 <= min(pair) <= max(pair) < count for pair in pairs)

    def lost_for_good(self, lost: Sequence[Pair]) -> list[Pair]:
        """Those of the lost pairs that are not asked for again."""
        asked = [pair for wave in self.waves for pair in wave]
        return [pair for pair in lost if asked.count(pair) >= _MOST_TRIES]


def read_task(environ: Mapping[str, str]) -> Task | None:
    """What the job of `environ` is asked for; None for one that begins. Raises UsageError."""
    text = environ.get(TASK_VARIABLE)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=decodable(Task))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _no_task(str(error)) from error


def _no_task(reason: str) -> UsageError:
    return UsageError(
        f"{TASK_VARIABLE} is no task of this ci-doctor: {reason}",
        hint="use one version of ci-doctor in all jobs, and do not set the variable yourself",
    )


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


class Job(Struct, frozen=True, kw_only=True):
    """The running job: its agent, its variables, its build, its number in its step, and what it is asked for.

    The first one is asked for nothing.
    """

    agent: BuildSteps
    environ: Mapping[str, str]
    build: str
    number: int
    task: Task
    is_first: bool

    def pair(self) -> Pair:
        """The pair that it is asked for. Raises UsageError."""
        if not self.task.waves or self.number >= len(self.task.waves[-1]):
            raise UsageError(
                f"{TASK_VARIABLE} has no starts for parallel job {self.number}",
                hint="leave the parallelism of uploaded steps as it is",
            )
        return self.task.waves[-1][self.number]

    def gathered(self) -> Gathered:
        """The evidence of all pairs so far."""
        with own_directory("evidence") as folder:
            return gather(self.agent, Path(folder), self.task.asked(self.build))


def enter(prepared: PreparedExperiment, environ: Mapping[str, str]) -> Job:
    """The running job.

    Raises UsageError outside a Buildkite job, and for a job that works on something else than the one that asked.
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
    # Else each job that is asked would ask others.
    names = (running.step_key, running.label)
    if task is None and any((name or "").startswith(_KEY) for name in names):
        raise UsageError(
            f"{TASK_VARIABLE} did not reach the command of a step that ci-doctor has uploaded",
            hint=f"let the container of the step have it: environment = [{TASK_VARIABLE}] of its plugin",
        )
    if task is not None and task.plan != plan:
        raise UsageError(
            "this job is asked for starts of another experiment: the requests, a command, a setting, the commit or "
            "the version of ci-doctor differs from those of the job that asked",
            hint="let all jobs check out one commit, and use one fan-out in a step",
        )
    if task is not None and not task.lies_within(len(task.order(prepared))):
        raise _no_task("it names starts that its order does not have")
    first = Task(plan=plan, began=began, seed=prepared.plan.rules.seed, waves=())
    return Job(
        agent=agent,
        environ=environ,
        build=running.build_id,
        number=running.parallel_job or 0,
        task=task or first,
        is_first=task is None,
    )


def hand_on(prepared: PreparedExperiment, job: Job, wave: tuple[Pair, ...]) -> Outcome:
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


def starts_at(order: Sequence[Arm], pair: Sequence[int]) -> tuple[tuple[Arm, int], ...]:
    """The arm and number of the start at each place of the order. Pure."""
    return tuple((order[place], order[: place + 1].count(order[place])) for place in pair)


def in_words(order: Sequence[Arm], pair: Pair) -> str:
    """The names of a pair's starts: `A1 and B1`. Pure."""
    return " and ".join(f"{arm.letter}{number}" for arm, number in starts_at(order, pair))
