# SPDX-License-Identifier: Apache-2.0
"""Reads the running job: steps of further jobs like it, changed by a template of the configuration."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from ci_doctor.buildkite.job import SECRET_NAME
from ci_doctor.errors import UsageError

# https://buildkite.com/docs/pipelines/configure/step-types/command-step

# What a job is asked for stands in this variable of its step; its form is that of the room that asks.
TASK_VARIABLE: Final = "CI_DOCTOR_TASK"
# "500 jobs per pipeline upload" (https://buildkite.com/docs/platform/limits), with room for the step after them.
MOST_JOBS: Final = 400
_MOST_ENV_BYTES: Final = 4 * 1024 * 1024
# What the agent sets in the file itself, or what a job must not inherit.
_ENV_LINE: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)=(".*")')
Count = Annotated[int, Meta(ge=1)]


class StepTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a step of further jobs has in place of what the running step has.

    `agents` are further rules beside `queue`. `plugins` are as in a pipeline. `concurrency` bounds the jobs that run at
    once, over all builds. `timeout` is in minutes. `command` must end in the same ci-doctor command.
    """

    queue: str | None = None
    agents: dict[str, str] = {}
    plugins: tuple[str | dict[str, Any], ...] | None = None
    image: str | None = None
    concurrency: Count | None = None
    concurrency_group: str | None = None
    command: str | None = None
    timeout: Count | None = None
    env: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.concurrency_group and self.concurrency is None:
            raise ValueError("`concurrency_group` takes `concurrency` beside it")


def job_step(
    template: StepTemplate,
    environ: Mapping[str, str],
    *,
    key: str,
    task: str,
    jobs: int = 1,
    after: str | None = None,
) -> dict[str, Any]:
    """A step of so many jobs like the running one, changed by `template`; each job gets `task`.

    A job of several knows its number by BUILDKITE_PARALLEL_JOB. Without `after` the step may fail softly: the step
    after it judges. That one runs whether or not the step `after` failed. Raises UsageError for too many jobs.
    """
    if jobs > MOST_JOBS:
        raise UsageError(
            f"{jobs} jobs in one step: Buildkite takes 500 in one upload",
            hint=f"ask for at most {MOST_JOBS}",
        )
    minutes = template.timeout or _integer(environ.get("BUILDKITE_TIMEOUT", ""))
    queue = template.queue or environ.get("BUILDKITE_AGENT_META_DATA_QUEUE")
    command = template.command or environ.get("BUILDKITE_COMMAND")
    plugins = template.plugins if template.plugins is not None else _own_plugins(environ)
    step: dict[str, Any] = {
        "label": key,
        "key": key,
        "command": command,
        "agents": {**({"queue": queue} if queue else {}), **template.agents},
        "plugins": list(plugins),
        "env": {**step_variables(environ), **template.env, TASK_VARIABLE: task},
        "image": template.image,
        "artifact_paths": environ.get("BUILDKITE_ARTIFACT_PATHS"),
        "timeout_in_minutes": minutes,
    }
    if jobs > 1:
        step["parallelism"] = jobs
    if template.concurrency is not None:
        step["concurrency"] = template.concurrency
        step["concurrency_group"] = template.concurrency_group or f"ci-doctor/{queue or 'agents'}"
        # In the order of upload a waiting job of another build would hold all agents back.
        step["concurrency_method"] = "eager"
    if after is None:
        step["soft_fail"] = True
    else:
        step["depends_on"] = [{"step": after, "allow_failure": True}]
        step["allow_dependency_failure"] = True
    return {name: value for name, value in step.items() if value not in (None, "", [], {})}


def _own_plugins(environ: Mapping[str, str]) -> Sequence[Any]:
    try:
        plugins = json.loads(environ.get("BUILDKITE_PLUGINS") or "[]")
    except ValueError:
        return ()
    return plugins if isinstance(plugins, list) else ()


def step_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the pipeline gives the running job, as Buildkite sent them; none if its agent does not tell.

    They stand in BUILDKITE_ENV_FILE, one a line, quoted as Go does (github.com/buildkite/agent, agent/job_runner.go).
    """
    try:
        with Path(environ.get("BUILDKITE_ENV_FILE", "")).open("rb") as file:
            text = file.read(_MOST_ENV_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return {}
    variables: dict[str, str] = {}
    for line in text.splitlines():
        match = _ENV_LINE.fullmatch(line)
        if match is None or match[1].startswith("BUILDKITE") or match[1] in {"CI", TASK_VARIABLE}:
            continue
        # The agent refuses to upload the value of a secret. Of the whole build, each job has it anyway.
        if SECRET_NAME.search(match[1].encode()):
            continue
        try:
            variables[match[1]] = json.loads(match[2])
        except ValueError:
            # Go writes bytes that are no text in a way of its own.
            continue
    return variables


def _integer(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and int(text) else None
