# SPDX-License-Identifier: Apache-2.0
"""Pure. Which jobs of a build are earlier attempts of the one that merges it."""

from ci_doctor.build.api_job import ApiJob
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.model.job_record import JobRecord


def is_own_record(record: JobRecord, job: JobEnvironment) -> bool:
    """Whether `record` is that of `job`, or of an attempt of it.

    A parallel job and a job of the same matrix are others, and their failures count.
    """
    about = record.about
    if not _is_one_place(about.step, about.parallel_index, job):
        return False
    if about.step is None and record.label is None:
        has_no_name = job.step_key is None and job.label is None
        return has_no_name and job.command is not None and record.command == job.command
    return _is_one_label(about.step, record.label, job)


def is_own_api_job(known: ApiJob, job: JobEnvironment) -> bool:
    """Whether Buildkite's API means `job` by `known`, or an attempt of it."""
    if known.job == job.job_id:
        return True
    if not _is_one_place(known.step_key, known.parallel_index, job):
        return False
    return _is_one_label(known.step_key, known.label, job)


def _is_one_place(key: str | None, index: int | None, job: JobEnvironment) -> bool:
    return key == job.step_key and index == job.parallel_job


def _is_one_label(key: str | None, label: str | None, job: JobEnvironment) -> bool:
    """The labels of a matrix hold its values. One that is unknown says nothing beside a key."""
    if label is None or job.label is None:
        return key is not None
    return label == job.label
