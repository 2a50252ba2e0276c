# SPDX-License-Identifier: Apache-2.0
"""Puts logs into the frames of CI systems, as the output of the last command of a job.

Around that command stands what other commands of the job print and get over (`passing/noise.py`).
A frame follows from the name of its log alone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from labelled_logs import LabelledLog
from msgspec import structs
from passing.frames import Frame
from passing.noise import read_noise
from passing.whole_jobs import failed_job, passed_job

FRAMES: Final = (Frame.BUILDKITE, Frame.GITHUB, Frame.GITLAB)


def framed_logs(
    logs: Sequence[LabelledLog], frame: Frame, folder: Path, *, held_out: bool
) -> list[LabelledLog]:
    """The `logs` in `frame`, written below `folder`, with the spans of their labels there."""
    framed_ones = []
    for number, log in enumerate(logs):
        failure = failed_job(frame, _text(log.path), log.id, read_noise(held_out=held_out))
        path = _written(folder / f"{frame}-{number}.log", failure.text)
        spans = tuple((begin + failure.first, end + failure.first) for begin, end in log.spans)
        framed_ones.append(structs.replace(log, path=path, spans=spans))
    return framed_ones


def framed_passing(paths: Sequence[Path], frame: Frame, folder: Path, *, held_out: bool) -> None:
    """The logs of passing runs at `paths` in `frame`, written to files of the same names."""
    for path in paths:
        text = passed_job(frame, _text(path), path.name, read_noise(held_out=held_out))
        _written(folder / path.name, text)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path
