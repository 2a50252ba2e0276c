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
_SHORT_LOGS: Final = 40


def framed_logs(logs: Sequence[LabelledLog], folder: Path, *, held_out: bool) -> list[LabelledLog]:
    """Each of `logs` in one of the frames, written below `folder`, with its spans there.

    held_out: with noise for measuring only, and in another frame than without.
    """
    noise = read_noise(held_out=held_out)
    framed = []
    for number, log in enumerate(logs):
        frame = _frame(number, held_out=held_out)
        failure = failed_job(frame, _text(log.path), log.id, noise)
        path = _written(folder / f"{number}.log", failure.text)
        spans = tuple((begin + failure.first, end + failure.first) for begin, end in log.spans)
        framed.append(structs.replace(log, path=path, spans=spans))
    return framed


def framed_passing(paths: Sequence[Path], folder: Path, *, held_out: bool) -> None:
    """The same of passing runs, in files of the same names."""
    noise = read_noise(held_out=held_out)
    for number, path in enumerate(paths):
        frame = _frame(number, held_out=held_out)
        _written(folder / path.name, passed_job(frame, _text(path), path.name, noise))


def short_passing(folder: Path, *, held_out: bool) -> None:
    """Logs of jobs that passed and of which only what they got over is there, without a frame."""
    noise = read_noise(held_out=held_out)
    for number in range(_SHORT_LOGS):
        text = passed_job(Frame.PLAIN, "", f"short {number}", noise)
        _written(folder / f"short{number}.log", text)


def _frame(number: int, *, held_out: bool) -> Frame:
    return FRAMES[(number + held_out) % len(FRAMES)]


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path
