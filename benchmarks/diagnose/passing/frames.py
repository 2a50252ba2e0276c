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
# Stands where the output of a failed step begins.
_OUTPUT = "\0output"


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
    """A command, what it printed, and the status with which it ended."""

    command: str
    started_s: float
    ended_s: float
    lines: Sequence[Line]
    status: int = 0


class Failure(NamedTuple):
    """The whole log of a job that failed; `first` lines stand before the failed step's output."""

    text: str
    first: int


def framed(frame: Frame, steps: Sequence[Step]) -> str:
    """The whole log of a job that passed; each line ends with a newline."""
    return "".join(f"{line}\n" for line in _FRAMES[frame](steps))


def framed_failure(frame: Frame, steps: Sequence[Step], after: Sequence[Step]) -> Failure:
    """The same of a job whose last one of `steps` failed; `after` are its clean-ups.

    KeyError is raised for a frame that shows no failures.
    """
    text = "".join(f"{line}\n" for line in _FAILURES[frame](steps, after))
    before, _, following = text.partition(f"{_OUTPUT}\n")
    return Failure(before + following, before.count("\n"))


def _plain(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        yield from (line.text for line in step.lines)


def _github(steps: Sequence[Step]) -> Iterator[str]:
    yield from _github_head(steps[0].started_s)
    for step in steps:
        yield from _github_step(step)
    yield from _github_tail(steps[-1].ended_s)


def _github_failure(steps: Sequence[Step], after: Sequence[Step]) -> Iterator[str]:
    yield from _github_head(steps[0].started_s)
    for step in steps:
        yield from _github_step(step)
    failed = steps[-1]
    yield _github_line(
        failed.ended_s, f"##[error]Process completed with exit code {failed.status}."
    )
    # Steps with `if: always()`.
    for step in after:
        yield from _github_step(step)
    yield _github_line(failed.ended_s, "##[group]Run actions/upload-artifact@v4")
    yield _github_line(failed.ended_s, "with:")
    yield _github_line(failed.ended_s, "  path: reports/")
    yield _github_line(failed.ended_s, "##[endgroup]")
    missing = "No files were found with the provided path: reports/. No artifacts will be uploaded."
    yield _github_line(failed.ended_s, f"##[warning]{missing}")
    yield from _github_tail(failed.ended_s)


def _github_head(start: float) -> Iterator[str]:
    yield "\ufeff" + _github_line(start, "Current runner version: '2.331.0'")
    yield _github_line(start, "##[group]Operating System")
    yield _github_line(start, "Ubuntu")
    yield _github_line(start, "##[endgroup]")
    yield _github_line(start, "Complete job name: test")


def _github_step(step: Step) -> Iterator[str]:
    yield _github_line(step.started_s, f"##[group]Run {step.command.splitlines()[0]}")
    for command in step.command.splitlines():
        yield _github_line(step.started_s, f"\x1b[36;1m{command}\x1b[0m")
    yield _github_line(step.started_s, "shell: /usr/bin/bash -e {0}")
    yield _github_line(step.started_s, "env:")
    yield _github_line(step.started_s, "  FORCE_COLOR: 1")
    yield _github_line(step.started_s, "##[endgroup]")
    yield from _mark(step)
    for line in step.lines:
        yield _github_line(line.at_s, line.text)


def _mark(step: Step) -> Iterator[str]:
    if step.status:
        yield _OUTPUT


def _github_tail(end: float) -> Iterator[str]:
    yield _github_line(end, "Post job cleanup.")
    yield _github_line(end, "Cleaning up orphan processes")


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
    yield from _buildkite_steps(steps)
    yield _buildkite_line(steps[-1].ended_s, "~~~ Running global pre-exit hook")


def _buildkite_failure(steps: Sequence[Step], after: Sequence[Step]) -> Iterator[str]:
    yield from _buildkite_steps(steps)
    failed = steps[-1]
    at_s = failed.ended_s
    yield _buildkite_line(at_s, "^^^ +++")
    error = f"🚨 Error: The command exited with status {failed.status}"
    yield _buildkite_line(at_s, f"\x1b[31m{error}\x1b[0m")
    yield _buildkite_line(at_s, "user command error: exit status 1")
    if after:
        yield _buildkite_line(at_s, "~~~ Running global post-command hook")
        yield _buildkite_line(at_s, "\x1b[90m$\x1b[0m /etc/buildkite-agent/hooks/post-command")
    for step in after:
        yield from (_buildkite_line(line.at_s, line.text) for line in step.lines)
    yield _buildkite_line(at_s, "~~~ Uploading artifacts")
    yield _buildkite_line(at_s, "\x1b[90m$\x1b[0m buildkite-agent artifact upload reports/*.xml")
    yield _buildkite_line(at_s, "\x1b[33mWARN\x1b[0m   No files matched paths: reports/*.xml")
    yield _buildkite_line(at_s, "~~~ Running global pre-exit hook")


def _buildkite_steps(steps: Sequence[Step]) -> Iterator[str]:
    start = steps[0].started_s
    yield _buildkite_line(start, "~~~ Preparing working directory")
    yield _buildkite_line(start, "\x1b[90m$\x1b[0m git fetch -v --prune -- origin main")
    yield _buildkite_line(start, "~~~ Running commands")
    for step in steps:
        yield _buildkite_line(step.started_s, f"--- {step.command.splitlines()[0]}")
        yield _buildkite_line(step.started_s, f"\x1b[90m$\x1b[0m {step.command}")
        yield from _mark(step)
        for line in step.lines:
            yield _buildkite_line(line.at_s, line.text)


def _buildkite_line(at_s: float, text: str) -> str:
    return f"\x1b_bk;t={int(at_s * 1000)}\x07{text}\r"


def _gitlab(steps: Sequence[Step]) -> Iterator[str]:
    yield from _gitlab_steps(steps)
    end = int(steps[-1].ended_s)
    yield f"section_end:{end}:step_script{ERASE}\x1b[0K\x1b[32;1mJob succeeded\x1b[0;m"


def _gitlab_failure(steps: Sequence[Step], after: Sequence[Step]) -> Iterator[str]:
    yield from _gitlab_steps(steps)
    end = int(steps[-1].ended_s)
    section = "step_script"
    if after:
        yield from _gitlab_next(end, section, "after_script", "Running after_script")
        section = "after_script"
        yield "\x1b[32;1mRunning after script...\x1b[0;m"
    for step in after:
        yield f"\x1b[32;1m$ {step.command}\x1b[0;m"
        yield from (line.text for line in step.lines)
    uploads = "Uploading artifacts for failed job"
    yield from _gitlab_next(end, section, "upload_artifacts_on_failure", uploads)
    yield "Uploading artifacts..."
    yield "\x1b[0;33mWARNING: reports/: no matching files. Ensure that the artifact path is relative\x1b[0;m"
    yield "\x1b[31;1mERROR: No files to upload                          \x1b[0;m"
    cleanup = "Cleaning up project directory and file based variables"
    yield from _gitlab_next(end, "upload_artifacts_on_failure", "cleanup_file_variables", cleanup)
    yield f"section_end:{end}:cleanup_file_variables{ERASE}"
    yield f"\x1b[31;1mERROR: Job failed: exit code {steps[-1].status}"
    yield "\x1b[0;m"


def _gitlab_next(at_s: int, ended: str, begun: str, title: str) -> Iterator[str]:
    start = f"section_start:{at_s}:{begun}{ERASE}"
    yield f"section_end:{at_s}:{ended}{ERASE}{start}\x1b[0K\x1b[36;1m{title}\x1b[0;m"


def _gitlab_steps(steps: Sequence[Step]) -> Iterator[str]:
    start = int(steps[0].started_s)
    yield "\x1b[0KRunning with gitlab-runner 17.5.3"
    title = 'Executing "step_script" stage of the job script'
    yield f"section_start:{start}:step_script{ERASE}\x1b[0K\x1b[36;1m{title}\x1b[0;m"
    for step in steps:
        yield f"\x1b[32;1m$ {step.command}\x1b[0;m"
        yield from _mark(step)
        yield from (line.text for line in step.lines)


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

_FAILURES: dict[Frame, Callable[[Sequence[Step], Sequence[Step]], Iterator[str]]] = {
    Frame.GITHUB: _github_failure,
    Frame.BUILDKITE: _buildkite_failure,
    Frame.GITLAB: _gitlab_failure,
}
