# SPDX-License-Identifier: Apache-2.0
"""Pure. What a report is about: the build, the job, the commit and the machine."""

from msgspec import Struct


class About(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where and on what a command ran. What is unknown is absent.

    `build` is the build's number, `step` the step's key, `parallel_index` counts from 0, `attempt`
    counts the job's retries from 0, `repository` is the address of its pages, `gpus` are the names of the machine's GPUs.
    https://buildkite.com/docs/pipelines/configure/environment-variables
    """

    pipeline: str | None = None
    build: int | None = None
    build_url: str | None = None
    job: str | None = None
    step: str | None = None
    parallel_index: int | None = None
    attempt: int | None = None
    commit: str | None = None
    branch: str | None = None
    repository: str | None = None
    agent: str | None = None
    queue: str | None = None
    gpus: tuple[str, ...] = ()
