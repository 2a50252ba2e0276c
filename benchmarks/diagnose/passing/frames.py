# SPDX-License-Identifier: Apache-2.0
"""Pure. Puts the lines of a job's steps into the frame in which a CI system shows them.

The forms are those of each system's raw log: the time stamps and groups of GitHub Actions, the
folds of Travis, the escapes of Buildkite's agent, the sections of GitLab, the prefixes of
Taskcluster, and the lines of a Jenkins pipeline.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

ERASE = "\r\x1b[0K"


class Frame(StrEnum):
    """A CI system, or none."""

    PLAIN = "plain"
    GITHUB = "github"
    TRAVIS = "travis"
    BUILDKITE = "buildkite"
    GITLAB = "gitlab"
    TASKCLUSTER = "taskcluster"
    JENKINS = "jenkins"


class Line(NamedTuple):
    """A line without its newline; `at_s` is the time of its printing in seconds since 1970."""

    at_s: float
    text: str


class Step(NamedTuple):
    """A command that ended with 0, and what it printed."""

    command: str
    started_s: float
    ended_s: float
    lines: Sequence[Line]


def framed(frame: Frame, steps: Sequence[Step]) -> str:
    """The whole log of a job that passed; each line ends with a newline."""
    lines = _FRAMES[frame](steps)
    return "".join(f"{line}\n" for line in lines)


def _plain(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        yield from (line.text for line in step.lines)


def _github(steps: Sequence[Step]) -> Iterator[str]:
    start = steps[0].started_s
    yield "\ufeff" + _github_line(start, "Current runner version: '2.331.0'")
    yield _github_line(start, "##[group]Operating System")
    yield _github_line(start, "Ubuntu")
    yield _github_line(start, "##[endgroup]")
    yield _github_line(start, "Complete job name: test")
    for step in steps:
        yield _github_line(step.started_s, f"##[group]Run {step.command.splitlines()[0]}")
        for command in step.command.splitlines():
            yield _github_line(step.started_s, f"\x1b[36;1m{command}\x1b[0m")
        yield _github_line(step.started_s, "shell: /usr/bin/bash -e {0}")
        yield _github_line(step.started_s, "env:")
        yield _github_line(step.started_s, "  FORCE_COLOR: 1")
        yield _github_line(step.started_s, "##[endgroup]")
        for line in step.lines:
            yield _github_line(line.at_s, line.text)
    yield _github_line(steps[-1].ended_s, "Post job cleanup.")
    yield _github_line(steps[-1].ended_s, "Cleaning up orphan processes")


def _github_line(at_s: float, text: str) -> str:
    """GitHub's stamps have seven digits below a second."""
    return f"{_utc(at_s, '%Y-%m-%dT%H:%M:%S.%f')}0Z {text}"


def _travis(steps: Sequence[Step]) -> Iterator[str]:
    yield f"travis_fold:start:worker_info{ERASE}\x1b[33;1mWorker information\x1b[0m"
    yield "hostname: worker-linux-1"
    yield f"travis_fold:end:worker_info{ERASE}"
    for number, step in enumerate(steps[:-1], 1):
        yield f"travis_fold:start:install.{number}{ERASE}"
        yield from _travis_step(number, step)
        yield f"travis_fold:end:install.{number}{ERASE}"
    yield from _travis_step(len(steps), steps[-1])
    yield f'\x1b[32;1mThe command "{steps[-1].command.splitlines()[0]}" exited with 0.\x1b[0m'
    yield ""
    yield "Done. Your build exited with 0."


def _travis_step(number: int, step: Step) -> Iterator[str]:
    timer = f"{number:08x}"
    start = int(step.started_s * 1e9)
    finish = int(step.ended_s * 1e9)
    yield f"travis_time:start:{timer}{ERASE}$ {step.command}"
    yield from (line.text for line in step.lines)
    span = f"start={start},finish={finish},duration={finish - start}"
    yield f"travis_time:end:{timer}:{span}{ERASE}"


def _buildkite(steps: Sequence[Step]) -> Iterator[str]:
    start = steps[0].started_s
    yield _buildkite_line(start, "~~~ Preparing working directory")
    yield _buildkite_line(start, "\x1b[90m$\x1b[0m git fetch -v --prune -- origin main")
    yield _buildkite_line(start, "~~~ Running commands")
    for step in steps:
        yield _buildkite_line(step.started_s, f"--- {step.command.splitlines()[0]}")
        yield _buildkite_line(step.started_s, f"\x1b[90m$\x1b[0m {step.command}")
        for line in step.lines:
            yield _buildkite_line(line.at_s, line.text)
    yield _buildkite_line(steps[-1].ended_s, "~~~ Running global pre-exit hook")


def _buildkite_line(at_s: float, text: str) -> str:
    return f"\x1b_bk;t={int(at_s * 1000)}\x07{text}\r"


def _gitlab(steps: Sequence[Step]) -> Iterator[str]:
    start = int(steps[0].started_s)
    end = int(steps[-1].ended_s)
    yield "\x1b[0KRunning with gitlab-runner 17.5.3"
    yield f"section_start:{start}:step_script{ERASE}\x1b[0K\x1b[36;1mExecuting step_script\x1b[0;m"
    for step in steps:
        yield f"\x1b[32;1m$ {step.command}\x1b[0;m"
        yield from (line.text for line in step.lines)
    yield f"section_end:{end}:step_script{ERASE}\x1b[0K\x1b[32;1mJob succeeded\x1b[0;m"


def _taskcluster(steps: Sequence[Step]) -> Iterator[str]:
    start = _stamp(steps[0].started_s)
    end = _stamp(steps[-1].ended_s)
    seconds = steps[-1].ended_s - steps[0].started_s
    yield f"[taskcluster {start}] === Task Starting ==="
    for step in steps:
        yield f"[task {_stamp(step.started_s)}] + {step.command}"
        for line in step.lines:
            yield f"[task {_stamp(line.at_s)}] {line.text}"
    yield f"[taskcluster {end}] === Task Finished ==="
    yield (
        f"[taskcluster {end}] Successful task run with exit code: 0 completed in {seconds:.3f} seconds"
    )


def _jenkins(steps: Sequence[Step]) -> Iterator[str]:
    yield "Started by an SCM change"
    yield "[Pipeline] Start of Pipeline"
    for step in steps:
        yield "[Pipeline] sh"
        yield f"+ {step.command}"
        yield from (line.text for line in step.lines)
    yield "[Pipeline] End of Pipeline"
    yield "Finished: SUCCESS"


def _stamp(at_s: float) -> str:
    return f"{_utc(at_s, '%Y-%m-%dT%H:%M:%S.%f')[:-3]}Z"


def _utc(at_s: float, form: str) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime(form)


_FRAMES: dict[Frame, Callable[[Sequence[Step]], Iterator[str]]] = {
    Frame.PLAIN: _plain,
    Frame.GITHUB: _github,
    Frame.TRAVIS: _travis,
    Frame.BUILDKITE: _buildkite,
    Frame.GITLAB: _gitlab,
    Frame.TASKCLUSTER: _taskcluster,
    Frame.JENKINS: _jenkins,
}
