# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs the steps of a build on a pool of agents, as Buildkite schedules them.

Copied (https://buildkite.com/docs/pipelines/configure/step-types/command-step, …/depends-on, …/environment-variables):
uploaded steps begin once the job that uploads them has ended; `parallelism: N` makes N jobs with BUILDKITE_PARALLEL_JOB 0 to
N-1 and BUILDKITE_PARALLEL_JOB_COUNT, and none for a single job; a step with `depends_on` begins once all jobs of that step
have ended, if they passed or both `allow_failure` and `allow_dependency_failure` are set, and never after a cancelled one;
a retried job has another id, the same number, and BUILDKITE_RETRY_COUNT one higher; a lost agent is exit status -1.
"""

import json
import os
import queue
import signal
import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import stand_in_agent
from tests.support.cli import environment

BUILD = "0193a000-0000-4000-8000-0000000000f0"
LOST = -1


@dataclass
class StepJob:
    """One job that has ended: its step, number and attempt, and what it printed."""

    key: str
    number: int
    retry: int
    job: str
    agent: str
    status: int = 0
    output: str = ""
    directory: Path = Path()


# What happens to a job before it begins, by its step, number and attempt: `lost`, `cancelled`, `retried` once it has
# passed, `twice` for a job that another agent makes again, or nothing.
Fate = Callable[[str, int, int], str]


@dataclass
class StandInBuild:
    """A build whose first step has `command`. `agents` are names with what each has in its environment."""

    folder: Path
    command: str
    agents: Mapping[str, Mapping[str, str]]
    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    fate: Fate = lambda *_: ""
    version: str = "3.110.0"
    jobs: list[StepJob] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.log = self.folder / "agent.log"
        stand_in_agent.install(self.folder / "bin", self.log, version=self.version)
        self._free: queue.Queue[str] = queue.Queue()
        for name in self.agents:
            self._free.put(name)

    def run(self) -> StepJob:
        """Run all steps to the end; the job that ended last."""
        first: dict[str, Any] = {"key": "correctness", "command": self.command}
        waiting: list[Mapping[str, Any]] = [first]
        ended: dict[str, list[StepJob]] = {}
        known = 0
        while waiting:
            step = waiting.pop(0)
            if self._may_run(step, ended):
                ended[step["key"]] = self._run_step(step)
            else:
                self.skipped.append(step["key"])
            steps = stand_in_agent.uploaded(self.log)
            waiting += steps[known:]
            known = len(steps)
        return self.jobs[-1]

    def _may_run(self, step: Mapping[str, Any], ended: Mapping[str, Sequence[StepJob]]) -> bool:
        for each in step.get("depends_on", []):
            jobs = [job for job in ended.get(each["step"], ()) if job.retry == 0]
            if not jobs or any(job.output == "cancelled" for job in jobs):
                return False
            is_allowed = each.get("allow_failure") and step.get("allow_dependency_failure")
            if any(job.status for job in jobs) and not is_allowed:
                return False
        return True

    def _run_step(self, step: Mapping[str, Any]) -> list[StepJob]:
        done: list[StepJob] = []
        count = step.get("parallelism", 1)
        threads = [
            threading.Thread(target=self._run_place, args=(step, number, count, done))
            for number in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return done

    def _run_place(
        self, step: Mapping[str, Any], number: int, count: int, done: list[StepJob]
    ) -> None:
        """The attempts of one of the step's jobs."""
        job, retry = str(uuid.uuid4()), 0
        while True:
            fate = self.fate(step["key"], number, retry)
            agent = self._free.get()
            try:
                ran = StepJob(step["key"], number, retry, job, agent)
                if fate == "cancelled":
                    ran.status, ran.output = 1, "cancelled"
                else:
                    self._run_job(step, ran, count, is_lost=fate == "lost")
            finally:
                self._free.put(agent)
            with self._lock:
                done.append(ran)
                self.jobs.append(ran)
            if fate == "retried":
                job, retry = str(uuid.uuid4()), retry + 1
            elif fate != "twice" or sum(each.job == job for each in done) > 1:
                return

    def _run_job(self, step: Mapping[str, Any], ran: StepJob, count: int, *, is_lost: bool) -> None:
        with self._lock:
            ran.directory = self.folder / f"job-{len(list(self.folder.glob('job-*')))}"
            ran.directory.mkdir()
        for name, text in self.files.items():
            (ran.directory / name).write_text(text)
        given = {**self.variables, **step.get("env", {})}
        env_file = ran.directory.with_name(f"{ran.directory.name}.env")
        env_file.write_text("".join(f"{name}={json.dumps(text)}\n" for name, text in given.items()))
        parallel = {
            "BUILDKITE_PARALLEL_JOB": str(ran.number),
            "BUILDKITE_PARALLEL_JOB_COUNT": str(count),
        }
        environ = environment(
            {
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "BUILDKITE": "true",
                "BUILDKITE_BUILD_ID": BUILD,
                "BUILDKITE_JOB_ID": ran.job,
                "BUILDKITE_STEP_KEY": step["key"],
                "BUILDKITE_STEP_ID": str(uuid.uuid5(uuid.UUID(BUILD), step["key"])),
                "BUILDKITE_RETRY_COUNT": str(ran.retry),
                "BUILDKITE_COMMAND": step["command"],
                "BUILDKITE_AGENT_META_DATA_QUEUE": step.get("agents", {}).get("queue", "gpus"),
                "BUILDKITE_ENV_FILE": str(env_file),
                "CI_DOCTOR_CORRECTNESS_SEED": None,
                **(parallel if count > 1 else {}),
                **given,
                **self.agents[ran.agent],
            }
        )
        process = subprocess.Popen(
            ["/bin/bash", "-e", "-c", step["command"]],
            cwd=ran.directory,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        if is_lost:
            assert process.stdout is not None
            ran.output = process.stdout.readline()
            os.killpg(process.pid, signal.SIGKILL)
        ran.output += process.communicate()[0]
        ran.status = LOST if is_lost else process.returncode

    def of_step(self, mark: str) -> list[StepJob]:
        """The jobs of steps whose key holds `mark`."""
        return [job for job in self.jobs if mark in job.key]
