# SPDX-License-Identifier: Apache-2.0
"""Starts and their samples as a run leaves them, for tests of the archive."""

from collections.abc import Sequence
from pathlib import Path

from ci_doctor.correctness.archive.archive import Archive
from ci_doctor.correctness.evidence.samples import Sample, SampleWriter, read_lines
from ci_doctor.correctness.results import StartResult, Tally
from ci_doctor.correctness.settings import Arm
from ci_doctor.identity.identity import Identity
from ci_doctor.load.canonical import digest
from ci_doctor.system.secrets.redaction import Redactor

IDS = ("r0", "r1", "r2")
OLD = "2020-01-01T00:00:00.000Z"
IDENTITY = Identity.of({"driver": "550.54", "vllm": "0.9.1"}, {"model.revision": "no cache"})


def output(text: str) -> dict[str, object]:
    return {"choices": [{"index": 0, "text": text}], "completion_tokens": 1}


def made(
    path: Path,
    texts: Sequence[str] = ("a", "b", "c"),
    *,
    number: int = 1,
    passes: int = 2,
    secrets: Sequence[str] = (),
) -> tuple[StartResult, list[bytes]]:
    """A baseline start that answered IDS with `texts` in each pass, and the lines of its samples file."""
    tally = Tally(arm=Arm.BASELINE, number=number, ids=IDS, passes=passes)
    with SampleWriter(path, Redactor(secrets)) as writer:
        for each in range(1, passes + 1):
            for identity, text in zip(IDS, texts, strict=True):
                said = output(text)
                sample = Sample(
                    arm="baseline",
                    start=number,
                    pass_=each,
                    id=identity,
                    status=200,
                    output=said,
                    digest=digest(said),
                    prompt_facts={"prompt_tokens": 7},
                )
                writer.write(sample)
                tally.add(sample)
    result = tally.result(duration_s=1.5, facts={"libcublas.so.12": "12.4.5.8"})
    return result, [line for _, line in read_lines(path)]


def kept(
    archive: Archive, directory: Path, identity: Identity = IDENTITY, recorded_at: str | None = None
) -> Path:
    """The file of one start in the archive."""
    result, lines = made(directory / "samples.jsonl")
    return archive.keep(identity, result, lines, build="build 42", recorded_at=recorded_at)
