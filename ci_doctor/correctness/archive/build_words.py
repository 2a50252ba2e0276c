# SPDX-License-Identifier: Apache-2.0
"""Pure. The build that an archived start comes from, in words."""

from collections.abc import Mapping

from ci_doctor.buildkite.job import JobEnvironment


def build_of(environ: Mapping[str, str]) -> str:
    """The build in words: `build 42 of main at 0123456789ab, https://…`.

    Outside Buildkite it is `a local run`.
    """
    job = JobEnvironment.from_environ(environ)
    if job is None:
        return "a local run"
    text = f"build {job.build_number}" if job.build_number is not None else "a build"
    if job.branch:
        text += f" of {job.branch}"
    if job.commit:
        text += f" at {job.commit[:12]}"
    if job.build_url:
        text += f", {job.build_url}"
    return text
