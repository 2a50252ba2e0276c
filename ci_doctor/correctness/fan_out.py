# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: the starts of an experiment as jobs of a Buildkite build, and the decision over what they leave.

A search under noise goes the same way (`localise.search_jobs`).

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

from ci_doctor.buildkite.fan_out import (
    Evidence,
    Gathered,
    NotEvidenceError,
    Origin,
    leave,
)
from ci_doctor.correctness import rules
from ci_doctor.correctness.asked_jobs import (
    Job,
    Pair,
    Task,
    enter,
    hand_on,
    in_words,
    pairs_of,
    starts_at,
)
from ci_doctor.correctness.evidence.resume import reread
from ci_doctor.correctness.evidence.run_identity import STARTS
from ci_doctor.correctness.planning import PreparedExperiment
from ci_doctor.correctness.results import (
    SAMPLES,
    Experiment,
    ExperimentEnding,
    SameAnswers,
    StartResult,
    Tally,
    unusable,
)
from ci_doctor.correctness.run import OnProgress, begin, conclude, judge, make_experiment
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.schedule import next_arms
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError
from ci_doctor.identity.identity import Identity, differences
from ci_doctor.load.canonical import digest
from ci_doctor.model.outcome import Evidence as Excerpt
from ci_doctor.model.outcome import Finding, Outcome, Verdict, is_green, text_table
from ci_doctor.render.formatting import amount
from ci_doctor.system.files.access import make_directory
from ci_doctor.system.processes.interruption import Interruption


def run_fanned_out(
    prepared: PreparedExperiment,
    environ: Mapping[str, str],
    on_progress: OnProgress,
    interruption: Interruption,
) -> Outcome:
    """What this job does of the experiment. Only the last one has a verdict.

    Raises UsageError and InfraError as `enter` does; InfraError if steps or evidence cannot be uploaded or gathered.
    """
    job = enter(prepared, environ)
    if job.is_first:
        arms = next_arms((), prepared.plan.ids, prepared.plan.rules, prepared.plan.rules.max_starts)
        return hand_on(prepared, job, pairs_of(0, len(arms)))
    if job.task.decides:
        return _decide(prepared, job, job.gathered())
    return _make(prepared, job, job.pair(), on_progress, interruption)


# --- a job that makes starts ---


class _Contents(Struct, frozen=True, kw_only=True):
    """The first line of a pair's evidence: the identity of each arm here, and the lengths of what follows.

    `host` is the agent. `is_outside`: something outside the change has ended a start. `broken` is why nothing can be
    started at the point of a search.
    """

    arms: Mapping[Arm, Identity]
    host: str = ""
    is_outside: bool = False
    broken: str = ""
    starts: int
    samples: int
    logs: Mapping[str, int] = {}


# Of the end of each log: what a person looks at first.
_LOG_BYTES = 1 << 20


def _make(
    prepared: PreparedExperiment,
    job: Job,
    pair: Pair,
    on_progress: OnProgress,
    interruption: Interruption,
) -> Outcome:
    given = starts_at(prepared.pace.order, pair)
    prepared = replace(prepared, plan=replace(prepared.plan, given=given))
    experiment = make_experiment(prepared, begin(prepared), on_progress, interruption)
    if experiment.ending.is_signal:
        return conclude(prepared, experiment, judge(prepared, experiment))
    return leave_pair(prepared, job, pair, experiment.results)


def leave_pair(
    prepared: PreparedExperiment,
    job: Job,
    pair: Pair,
    results: Sequence[StartResult],
    broken: str = "",
) -> Outcome:
    """Upload what the starts of this job left in the report directory; `broken` says why there are none.

    Raises InfraError, also if the budget has cut one short.
    """
    made = [result for result in results if result.counts]
    names = in_words(job.task.order(prepared), pair)
    if len(made) < len(pair) and not broken:
        raise InfraError(
            f"the budget ended before {names} were made",
            hint="write a larger --budget, or a larger `timeout` in [correctness.step]",
        )
    origin = Origin.of(job.environ, plan=job.task.plan, task=job.task.name(pair))
    body = pair_evidence(
        prepared.plan.directory,
        prepared.identities,
        host=job.environ.get("BUILDKITE_AGENT_NAME") or platform.node(),
        is_outside=any(
            each.start.outside and not (each.start.claimed or each.start.of_job) for each in made
        ),
        broken=broken,
    )
    path = leave(job.agent, origin, body)
    return Outcome(verdict=None, summary=f"made {names}; their evidence is {path}")


def pair_evidence(
    directory: Path,
    identities: Mapping[Arm, Identity],
    host: str = "",
    *,
    is_outside: bool = False,
    broken: str = "",
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
        broken=broken,
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
    broken: str = ""

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
            broken=contents.broken,
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


def _read_parts(
    evidence: Sequence[Evidence], kind: str | None
) -> tuple[list[PairEvidence], list[str]]:
    """The evidence of one pair, of agents of the kind if there is one, and why other evidence does not count."""
    read: list[PairEvidence] = []
    refused: list[str] = []
    for each in evidence:
        try:
            part = PairEvidence.read(each)
        except NotEvidenceError as error:
            refused.append(f"job {each.origin.job}: {error}")
            continue
        if kind and part.agent() != kind:
            refused.append(f"job {each.origin.job}: its agent is {part.agent()}, not {kind}")
        else:
            read.append(part)
    return read, refused


def _check_gathered(lost: Sequence[Pair], gathered: Gathered) -> None:
    if lost and gathered.problems:
        raise InfraError(
            f"the evidence cannot be gathered: {'; '.join(gathered.problems[:3])}",
            hint="retry this job",
        )


def assemble(prepared: PreparedExperiment, task: Task, gathered: Gathered) -> AssembledEvidence:
    """Put the evidence of all pairs into the report directory, in the drawn order, and read it as a run's own.

    That of a search is of one kind of agent. Raises InfraError if some is lost that cannot be gathered.
    """
    plan, order = prepared.plan, task.order(prepared)
    begin(prepared)
    pairs = sorted({pair for wave in task.waves for pair in wave})
    words = {pair: in_words(order, pair) for pair in pairs}
    kind = task.kind if task.points else None
    parts: dict[Pair, PairEvidence] = {}
    refused: list[str] = []
    repeated: list[str] = []
    for pair in pairs:
        read, wrong = _read_parts(gathered.evidence.get(task.name(pair), ()), kind)
        refused += [f"{words[pair]} of {each}" for each in wrong]
        if read:
            # The first, or whoever repeats jobs could choose among answers. Only one that was ended from outside has none.
            part = next((each for each in read if not each.is_outside), read[0])
            parts[pair] = part
            kind = part.agent() if task.points else None
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
        is_broken = task.points and parts[pair].broken
        made = () if is_broken else starts_at(order, pair)
        names = [f"{arm.letter}{number}" for arm, number in made]
        if not by_name.keys() >= set(names) or parts[pair].starts.count(b"\n") != len(names):
            refused.append(f"job {parts[pair].origin.job} does not hold {words[pair]}")
            del parts[pair]
            continue
        agent = parts[pair].agent()
        for name in names:
            result = by_name[name]
            results.append(replace(result, start=replace(result.start, agent=agent)))
    lost = tuple(pair for pair in pairs if pair not in parts)
    _check_gathered(lost, gathered)
    return AssembledEvidence(
        experiment=Experiment(
            results=tuple(map(same.at_gate, results)),
            outputs=finished.outputs,
            ending=ExperimentEnding.COMPLETE,
            rules=plan.rules,
            comparison=plan.comparison,
        ),
        lost=lost,
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
    if assembled.lost:
        return () if task.lost_for_good(assembled.lost) else assembled.lost
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
    "(`[correctness.step]`), or with a steadier baseline (`ci-doctor setup-env --determinism strict` may help)."
)


def _decide(prepared: PreparedExperiment, job: Job, gathered: Gathered) -> Outcome:
    task = job.task
    assembled = assemble(prepared, task, gathered)
    wave = next_wave(prepared, task, assembled)
    order = prepared.pace.order
    if wave:
        return with_jobs(hand_on(prepared, job, wave), order, task, gathered, assembled)
    for part in assembled.parts.values():
        # This agent may be of another kind than those that made starts.
        prepared = replace(prepared, identities=part.arms)
        break
    decision = judge(prepared, with_lost(prepared, assembled))
    decision = without_lost(decision, [in_words(order, pair) for pair in assembled.lost])
    outcome = conclude(prepared, assembled.experiment, decision)
    # Nothing resumes this run.
    findings = tuple(
        replace(each, remedy=_NEXT) if each.rule == rules.INCONCLUSIVE.id else each
        for each in outcome.findings
    )
    return with_jobs(replace(outcome, findings=findings), order, task, gathered, assembled)


def with_jobs(
    outcome: Outcome,
    order: Sequence[Arm],
    task: Task,
    gathered: Gathered,
    assembled: AssembledEvidence,
) -> Outcome:
    """An outcome with what was lost or refused, and at the end with the jobs behind it. Pure."""
    findings = (*outcome.findings, *_findings(order, task, gathered, assembled))
    jobs = text_table(title="Jobs", lines=tuple(job_lines(order, assembled)))
    return replace(outcome, findings=findings, tables=(*outcome.tables, jobs))


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
