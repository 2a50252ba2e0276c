# SPDX-License-Identifier: Apache-2.0
"""A run to kill: writes the samples of some starts as an experiment does, and goes on with what an earlier one left."""

import hashlib
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ci_doctor.correctness.evidence.resume import Resumed, StartWriter, resume
from ci_doctor.correctness.evidence.run_identity import RunIdentity, write_run
from ci_doctor.correctness.evidence.samples import Sample, SampleWriter
from ci_doctor.correctness.results import StartResult, Tally
from ci_doctor.correctness.settings import Arm, ArmPlan
from ci_doctor.load.canonical import digest
from ci_doctor.model.facts.launch import ServiceFailure, ServiceRun
from ci_doctor.services.logs import open_log
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.system.secrets.redaction import Redactor

IDS = ("r0", "r1", "r2")
PASSES = 2
END = "end"
ORDER = ("A1", "B1", "A2", "A3", "B2", "A4", "B3", "A5")
_WEB = {"web": ServiceSpec(command="serve --eager")}
ARMS = {
    Arm.BASELINE: ArmPlan(specs=_WEB, names=("web",)),
    Arm.CANDIDATE: ArmPlan(
        specs={"web": ServiceSpec(command="serve --eager --typo")}, names=("web",)
    ),
}
IDENTITY = RunIdentity(
    requests="1" * 64, hashes={"the command of the candidate": "abcd"}, settings={"passes": PASSES}
)


def output(start: str, request: str, number: int, size: int = 10) -> dict[str, Any]:
    """What this start answers to this request in pass `number`: `size` characters."""
    said = hashlib.sha256(f"{start} {request} {number}".encode()).hexdigest()
    return {"choices": [{"index": 0, "text": (said * (size // 64 + 1))[:size]}]}


def sample(start: str, request: str, number: int, **changes: Any) -> Sample:
    """The sample of that answer; `changes` may give it a `size`."""
    said = output(start, request, number, changes.pop("size", 10))
    fields: dict[str, Any] = {
        "status": 200,
        "output": said,
        "digest": digest(said),
        "prompt_facts": {"prompt_tokens": 3},
    }
    return Sample(
        arm=arm_of(start).value,
        start=int(start[1:]),
        pass_=number,
        id=request,
        **{**fields, **changes},
    )


def arm_of(start: str) -> Arm:
    """A is the baseline's."""
    return Arm.BASELINE if start[0] == "A" else Arm.CANDIDATE


def service(log: Path) -> ServiceRun:
    """A service that wrote this log."""
    return ServiceRun(name="vllm", log=str(log))


def result(
    tally: Tally, directory: Path, failure: ServiceFailure | None = None, **changes: Any
) -> StartResult:
    """The result of a start that is over."""
    outside = changes.pop("outside", False)
    claimed = outside and failure is not None and failure.log is not None
    fields: dict[str, Any] = {
        "start": tally.start(failed=failure is not None, outside=outside, claimed=claimed),
        "failure": failure,
        "duration_s": 1.5,
        "services": (service(directory / "logs" / tally.name / "vllm-1.log"),),
        "digests": tally.digests,
        "errors": tally.errors,
        "samples": tally.count,
        **changes,
    }
    return StartResult(**fields)


class Recording:
    """The files of a run, open."""

    def __init__(
        self, directory: Path, *, append: bool = False, secrets: tuple[str, ...] = ()
    ) -> None:
        self.directory = directory
        self.samples = SampleWriter(directory / "samples.jsonl", Redactor(secrets), append=append)
        self.starts = StartWriter(directory, Redactor(secrets), append=append)

    def start(self, name: str, *given: Sample, **changes: Any) -> StartResult:
        """Write the samples of a start (all answers unless some are `given`), and unless `finished=False` its end."""
        finished = changes.pop("finished", True)
        tally = Tally(arm=arm_of(name), number=int(name[1:]), ids=IDS, passes=PASSES)
        with self.samples, self.starts:
            for each in given or (
                sample(name, request, number) for number in (1, 2) for request in IDS
            ):
                self.samples.write(each)
                tally.add(each)
            made = result(tally, self.directory, **changes)
            if finished:
                self.starts.write(made)
        self.samples = SampleWriter(self.directory / "samples.jsonl", Redactor(()), append=True)
        self.starts = StartWriter(self.directory, Redactor(()), append=True)
        return made


def take_up(directory: Path) -> Resumed:
    """Go on with the run in `directory`."""
    return resume(directory, IDENTITY, ids=IDS, passes=PASSES, arms=ARMS)


def report(directory: Path, size: int, connection: Connection) -> None:
    """Begin the run in `directory`, or take it up, and make all its starts; `connection` hears of each step."""
    progress = connection.send
    begun = (directory / "run.json").exists()
    progress("begun")
    if not begun:
        write_run(directory, IDENTITY)
    done = {each.start.name for each in take_up(directory).results} if begun else set()
    samples = SampleWriter(directory / "samples.jsonl", Redactor(()), append=begun)
    with samples, StartWriter(directory, Redactor(()), append=begun) as starts:
        for name in ORDER:
            if name not in done:
                _make(name, size, samples, starts, progress)
    progress(END)


def _make(
    name: str,
    size: int,
    samples: SampleWriter,
    starts: StartWriter,
    progress: Callable[[str], None],
) -> None:
    directory = samples.path.parent
    log, handle = open_log(directory / "logs" / name, "vllm")
    os.write(handle, f"{name}\n".encode() * 100)
    os.close(handle)
    tally = Tally(arm=arm_of(name), number=int(name[1:]), ids=IDS, passes=PASSES)
    for number in (1, 2):
        for request in IDS:
            each = sample(name, request, number, size=size)
            samples.write(each)
            tally.add(each)
            progress(".")
    starts.write(result(tally, directory, services=(service(log),)))
    progress(name)
