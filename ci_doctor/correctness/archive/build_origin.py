# SPDX-License-Identifier: Apache-2.0
"""Pure. Which build made an archived start, so that independent builds can be counted."""

import re

from msgspec import Struct

from ci_doctor.buildkite.job import JobEnvironment

# BUILDKITE_COMMIT may also be `HEAD`, or a branch, of a build that was started by hand.
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class BuildOrigin(Struct, frozen=True, kw_only=True):
    """The build that made archived starts.

    `id` is common to the starts of one build and to no others: Buildkite's id of the build, or host
    and run elsewhere. Jobs of one build and their retries are one build. `commit` is the build's,
    and `baseline_commit` that of the repository in which the baseline's server ran; both are full
    hexadecimal digits, or None if unknown.
    """

    id: str
    number: int | None = None
    job: str | None = None
    commit: str | None = None
    baseline_commit: str | None = None

    @property
    def commits(self) -> tuple[str, ...]:
        """The known commits, each once."""
        commits = dict.fromkeys((self.commit, self.baseline_commit))
        return tuple(commit for commit in commits if commit)


def build_origin(
    job: JobEnvironment | None, run: str, commit: str | None, baseline_commit: str | None
) -> BuildOrigin:
    """The origin of starts that this `job` made.

    `run` identifies a run outside Buildkite. `commit` is the one that is checked out; the job's own
    goes before it.
    """
    baseline_commit = _hexadecimal(baseline_commit)
    if job is None:
        commit = _hexadecimal(commit)
        return BuildOrigin(id=run, commit=commit, baseline_commit=baseline_commit)
    return BuildOrigin(
        id=job.build_id or job.job_id,
        number=job.build_number,
        job=job.job_id,
        commit=_hexadecimal(job.commit) or _hexadecimal(commit),
        baseline_commit=baseline_commit,
    )


def _hexadecimal(commit: str | None) -> str | None:
    if commit is None:
        return None
    return commit if _COMMIT.fullmatch(commit) else None
