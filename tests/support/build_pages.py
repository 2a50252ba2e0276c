# SPDX-License-Identifier: Apache-2.0
"""Reports of made-up builds to draw pages of, made from a seed: the same each time."""

import random
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import to_builtins
from msgspec.structs import asdict, replace

from ci_doctor.model.cause import LogLine, Owner, RetryPolicy
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.outcome import Report, Verdict
from tests.support import builds
from tests.support.builders import a_finding, a_report
from tests.support.builds import BUILD_URL, moment

FULL_DISK = CauseFacts(**asdict(builds.FULL_DISK), steps=(), jobs=0)
ASSERTION = CauseFacts(**asdict(builds.ASSERTION), steps=(), jobs=0)
LOST_GPU = CauseFacts(
    fingerprint="9f31aa02c655",
    title="a GPU fell off the bus",
    class_="gpu",
    place=LogLine(
        file="dmesg.log",
        line=88,
        message="NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.",
    ),
    remedy="Drain the machine, and run `nvidia-smi -q` on it.",
    owner=Owner.MACHINE,
    retry=RetryPolicy.YES,
    is_outside=True,
    is_final=True,
    steps=(),
    jobs=0,
)
UNEXPLAINED = CauseFacts(
    fingerprint="no-cause:exit-1", title="no cause is known: exit status 1", steps=(), jobs=0
)
CAUSES = (FULL_DISK, ASSERTION, LOST_GPU, UNEXPLAINED)
NAMES = (
    *("kernels", "serving smoke", "long context", "speculative decoding", "prefix cache"),
    *("multi-LoRA", "structured output", "quantization", "pipeline parallel", "LMCache"),
)


def a_job(begin: float = 0, seconds: float = 60, **changes: Any) -> JobFacts:
    """A job that passed; `changes` are fields of JobFacts."""
    job = JobFacts(
        job="01935c7e-0000-4000-8000-000000000001",
        began_at=moment(begin),
        ended_at=moment(begin + seconds),
        verdict="pass",
        summary="100 of 100 requests were answered",
        exit_status=0,
        agent="gpu-1",
        queue="h200",
        gpus=8,
    )
    return replace(job, **changes)


def a_step(name: str = "serving", *attempts: JobFacts, **changes: Any) -> StepFacts:
    """A step with `attempts`, one that passed if there are none; its verdict is the last one's."""
    all_attempts = attempts or (a_job(),)
    step = StepFacts(name=name, verdict=all_attempts[-1].verdict, attempts=all_attempts)
    return replace(step, **changes)


def build_report(facts: BuildFacts, verdict: Verdict = Verdict.PASS, **changes: Any) -> Report:
    """The report of `build merge` with `facts`; `changes` are fields of Report."""
    report = a_report(
        verdict,
        command="build merge",
        argv=("ci-doctor", "build", "merge", "--current"),
        summary=f"{len(facts.build_steps)} steps were merged",
        reproduce="ci-doctor build merge --current",
        facts=to_builtins(facts),
    )
    return replace(report, **changes)


def one_job() -> Report:
    """A build of one step that passed."""
    step = a_step("serving", a_job(0, 302))
    return build_report(_facts((step,), ()), summary="1 step passed")


def fifty_jobs() -> Report:
    """A build with every verdict, retries of every worth, a missing and a duplicate report."""
    steps = _steps(46, random.Random(5), known_queue=True)
    hidden = a_step(
        "LMCache, flaky",
        _ended(random.Random(1), 260, 400, ASSERTION, attempt=0, retry=RetryWorth.HID_A_FAILURE),
        a_job(700, 380, attempt=1, queued_s=31.0),
    )
    flaky = a_step(
        "speculative decoding, 4 of 4",
        a_job(120, 512, verdict="flaky", summary="2 of 400 tests passed on a rerun", queued_s=12.0),
    )
    undecided = a_step(
        "bitwise comparison",
        a_job(90, 1330, verdict="inconclusive", summary="7 starts are too few", queued_s=3.0, exit_status=86),
    )  # fmt: skip
    missing = a_step(
        "long context, 7 of 8",
        a_job(0, 0, verdict="missing", summary="the job left no report", began_at=None, ended_at=None, exit_status=None, agent=None, gpus=None),
    )  # fmt: skip
    all_steps = _worst_first((*steps, hidden, flaky, undecided, missing))
    facts = _facts(all_steps, CAUSES, knows_queue=True)
    facts = replace(facts, missing=("long context, 7 of 8",), duplicates=("kernels 3",))
    findings = (
        a_finding(
            rule="build/missing-report",
            summary="the step `long context, 7 of 8` left no report",
            remedy="Look at the end of its log: the job may have been stopped before the plugin ran.",
        ),
        a_finding(
            rule="build/claimed-twice",
            summary="2 jobs claim to be attempt 1 of kernels 3",
        ),
    )
    return build_report(
        facts, Verdict.FAILED, summary=_summary(facts), findings=findings, exit_code=1
    )


def thousand_jobs() -> Report:
    """A build of a thousand jobs."""
    steps = _steps(1000, random.Random(7), known_queue=False)
    facts = _facts(steps, CAUSES)
    return build_report(facts, Verdict.FAILED, summary=_summary(facts))


def _summary(facts: BuildFacts) -> str:
    failed = sum(step.verdict not in {"pass", "flaky"} for step in facts.build_steps)
    return f"{failed} of {len(facts.build_steps)} steps did not pass"


def _steps(count: int, chance: random.Random, *, known_queue: bool) -> tuple[StepFacts, ...]:
    steps = [_step(number, chance, known_queue=known_queue) for number in range(count)]
    return _worst_first(steps)


def _worst_first(steps: Iterable[StepFacts]) -> tuple[StepFacts, ...]:
    """`steps` as the facts of a build have them."""
    order = ("failed", "missing", "inconclusive", "infra", "flaky", "pass")
    return tuple(sorted(steps, key=lambda step: (order.index(step.verdict), step.name)))


def _step(number: int, chance: random.Random, *, known_queue: bool) -> StepFacts:
    name = f"{NAMES[number % len(NAMES)]} {number // len(NAMES) + 1}"
    begin = chance.uniform(20, 1200)
    queued = chance.uniform(1, 90) if known_queue else None
    passed = a_job(
        begin, chance.uniform(90, 900), job=_id(chance), queued_s=queued, agent=_agent(chance)
    )
    if chance.random() > 0.1:
        return a_step(name, passed)
    cause = chance.choice(CAUSES)
    first = _ended(chance, begin, chance.uniform(60, 500), cause, queued=queued)
    if not cause.may_be_retried:
        return a_step(name, first)
    after = begin + 520
    if chance.random() > 0.6:
        again = _ended(chance, after, chance.uniform(30, 300), cause, attempt=1, queued=queued)
        return a_step(name, replace(first, retry=RetryWorth.IN_VAIN), again)
    second = replace(
        passed,
        attempt=1,
        began_at=moment(after),
        ended_at=moment(after + chance.uniform(90, 600)),
    )
    return a_step(name, replace(first, retry=RetryWorth.HELPED), second)


def _ended(
    chance: random.Random,
    begin: float,
    seconds: float,
    cause: CauseFacts,
    *,
    attempt: int = 0,
    queued: float | None = None,
    retry: RetryWorth | None = None,
) -> JobFacts:
    """An attempt that ended by `cause`."""
    return a_job(
        begin,
        seconds,
        job=_id(chance),
        attempt=attempt,
        verdict="infra" if cause.may_be_retried else "failed",
        summary=cause.title,
        cause=cause.fingerprint,
        exit_status=75 if cause.may_be_retried else 1,
        agent=_agent(chance),
        queued_s=queued,
        retry=retry,
        reports=("ci-doctor/diagnose",),
    )


def _facts(
    steps: tuple[StepFacts, ...], causes: tuple[CauseFacts, ...], *, knows_queue: bool = False
) -> BuildFacts:
    jobs = [attempt for step in steps for attempt in step.attempts]
    ends = sorted(job.ended_at or "" for job in jobs)
    return BuildFacts(
        pipeline="serving",
        build=812,
        build_url=BUILD_URL,
        commit="c0ffee" * 6 + "c0ff",
        branch="batch-invariant-moe",
        began_at=moment(0),
        ended_at=ends[-1],
        build_steps=steps,
        causes=_priced(causes, steps),
        knows_queue=knows_queue,
    )


def _priced(causes: tuple[CauseFacts, ...], steps: tuple[StepFacts, ...]) -> tuple[CauseFacts, ...]:
    """The causes that ended an attempt of `steps`, each with what it cost, the dearest first."""
    priced = []
    for cause in causes:
        struck = [
            (step.name, attempt)
            for step in steps
            for attempt in step.attempts
            if attempt.cause == cause.fingerprint
        ]
        if not struck:
            continue
        seconds = sum(_seconds(attempt) for _, attempt in struck)
        names = tuple(dict.fromkeys(name for name, _ in struck))
        priced.append(
            replace(cause, steps=names, jobs=len(struck), seconds=seconds, gpu_seconds=8 * seconds)
        )
    return tuple(sorted(priced, key=lambda cause: -(cause.seconds or 0)))


def _seconds(job: JobFacts) -> float:
    assert job.began_at
    assert job.ended_at
    length = datetime.fromisoformat(job.ended_at) - datetime.fromisoformat(job.began_at)
    return length.total_seconds()


def _id(chance: random.Random) -> str:
    return str(UUID(int=chance.getrandbits(128), version=4))


def _agent(chance: random.Random) -> str:
    return f"gpu-{chance.randint(1, 12)}"
