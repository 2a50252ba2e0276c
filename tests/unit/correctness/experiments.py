# SPDX-License-Identifier: Apache-2.0
"""Experiments to test with: starts that answered with texts, as their servers would have."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.report.findings import Context, run_context
from ci_doctor.correctness.results import Experiment, ExperimentEnding, StartResult, Tally
from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.looks import blocks
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.load.canonical import digest
from ci_doctor.load.requests import Request
from ci_doctor.model.facts.launch import FailureKind, ServiceFailure, ServiceRun

DIRECTORY = Path("/reports")
DEATH = ServiceFailure(
    kind=FailureKind.DIED,
    service="vllm",
    message="vllm died 2.0 s after its start, before it was ready: exit code 1",
    exit_code=1,
    log="/reports/logs/B1/vllm-1.log",
    tail=("RuntimeError: no",),
    tail_line=7,
    tail_end_line=7,
    duration_s=2.0,
)


def output(text: str) -> dict[str, Any]:
    """A canonical output."""
    return {"choices": [{"index": 0, "text": text}]}


def result(name: str, texts: str, passes: int = 1, **changes: Any) -> StartResult:
    """The start `name` ("A1"), which answered r0, r1 … with the words of `texts` (`-`: with an error).

    With several passes the words of one request stand together. `changes` are fields of StartResult.
    """
    arm = Arm.BASELINE if name[0] == "A" else Arm.CANDIDATE
    words = texts.split()
    tally = Tally(
        arm=arm,
        number=int(name[1:]),
        ids=[f"r{index}" for index in range(len(words) // passes)],
        passes=passes,
    )
    for index, word in enumerate(words):
        number, identity = 1 + index % passes, f"r{index // passes}"
        said: dict[str, Any] = (
            {"error": "HTTP 500"} if word == "-" else {"digest": digest(output(word))}
        )
        tally.add(Sample(arm=arm.value, start=tally.number, pass_=number, id=identity, **said))
    failure = changes.get("failure")
    made = tally.result(
        start=tally.start(failed=failure is not None, outside=changes.pop("outside", False)),
        duration_s=1.25,
        services=(ServiceRun(name="vllm", log=str(DIRECTORY / "logs" / name / "vllm-1.log")),),
    )
    return replace(made, **changes)


def first_look(baseline: str, candidate: str, number: int = 1) -> list[StartResult]:
    """Enough starts for a regression: all up to a look, each arm with answers of its own."""
    plan = blocks(Rules(), archived=False)[: number + 1]
    starts = []
    for arm, texts in ((Arm.BASELINE, baseline), (Arm.CANDIDATE, candidate)):
        number = sum(block.of(arm) for block in plan)
        starts += [result(f"{arm.letter}{index}", texts) for index in range(1, number + 1)]
    return starts


def experiment(
    *results: StartResult, ending: ExperimentEnding = ExperimentEnding.COMPLETE
) -> Experiment:
    """An experiment of these starts; their words are some of those below."""
    words = ("same", "one", "two", "three", "four", "u", "v", "w", "x", "y", "z")
    return Experiment(
        results=results,
        outputs={digest(output(word)): output(word) for word in words},
        ending=ending,
    )


def context(count: int = 2) -> Context:
    """The context of r0, r1 …, in lines 1, 2 …."""
    requests = [
        Request(id=f"r{index}", path="/v1/completions", body={}, line=index + 1)
        for index in range(count)
    ]
    return run_context(requests, "prompts.jsonl", "ci-doctor correctness --only")


def decided(made: Experiment, count: int = 2) -> Decision:
    """The decision on an experiment."""
    identities = [f"r{index}" for index in range(count)]
    return decide(
        made.starts, identities, made.rules, complete=made.ending is ExperimentEnding.COMPLETE
    )
