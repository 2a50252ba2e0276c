# SPDX-License-Identifier: Apache-2.0
"""Pure. What the attempts of a job have annotated, as the build's meta-data keeps it.

An annotation outlives the job that made it. So each attempt keeps its context, and in a few words
what it said, where a retry on any agent reads it.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.model.earlier_attempt import EarlierAttempt

# "larger than 1 kilobyte … is discouraged"
# (https://buildkite.com/docs/pipelines/configure/build-meta-data).
HISTORY_BYTES = 1000
CAUSE_CHARACTERS = 120
_SHORT_CAUSE = 40


class Published(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who made an annotation: the attempt, from 0, of a job with this digest of its command.

    said: what the annotation says of this attempt. before: what the attempts before it said, the
    oldest first. Both are missing if an older ci-doctor wrote it.
    """

    attempt: int
    command: str
    said: EarlierAttempt | None = None
    before: tuple[EarlierAttempt, ...] = ()

    @property
    def job(self) -> str | None:
        """The id of the job; None if an older ci-doctor wrote it."""
        return self.said.job if self.said else None


class AttemptHistory(Struct, frozen=True, kw_only=True):
    """The annotations under a job's key, by context: its own, those of its earlier attempts.

    Jobs of a matrix without its values in their labels are here too.
    """

    published: dict[str, Published]

    def has_later(self, job: JobEnvironment) -> bool:
        """Whether a later attempt has published: this one was given up as lost."""
        return any(each.attempt > job.retry_count for each in self.published.values())

    def context(self, job: JobEnvironment) -> str:
        """Where the annotation of `job` stands: in the place of its earlier attempt's, if any."""
        usual = job.step_context()
        own = self._own(job)
        ours = [context for context in own if context.startswith(usual)]
        if ours:
            return max(ours, key=lambda context: own[context].attempt)
        by_command = job.sibling_context(same_command=False)
        for free in (usual, by_command):
            if free not in self.published:
                return free
        return job.sibling_context(same_command=True)

    def stale(self, job: JobEnvironment) -> list[str]:
        """The contexts of the earlier attempts of `job`."""
        return [
            context for context, each in self._own(job).items() if each.attempt < job.retry_count
        ]

    def earlier(self, job: JobEnvironment) -> tuple[EarlierAttempt, ...]:
        """What is known of the earlier attempts of `job`, the oldest first."""
        known: dict[int, EarlierAttempt] = {}
        for each in self._own(job).values():
            said = each.said or EarlierAttempt(attempt=each.attempt)
            for attempt in (*each.before, said):
                if attempt.attempt < job.retry_count:
                    known[attempt.attempt] = attempt
        return tuple(known[number] for number in sorted(known))

    def _own(self, job: JobEnvironment) -> dict[str, Published]:
        """What this very job and its earlier attempts have published.

        In a matrix the command tells the jobs apart. If that is the same too, nobody knows which
        job is a retry of which one: then it is what this job itself has published.
        """
        all_of_them = {
            context: each
            for context, each in self.published.items()
            if each.attempt <= job.retry_count
        }
        if not _are_siblings(all_of_them, job):
            return all_of_them
        digest = job.command_digest()
        same = {context: each for context, each in all_of_them.items() if each.command == digest}
        if not _are_siblings(same, job):
            return same
        return {context: each for context, each in same.items() if each.job == job.job_id}


def _are_siblings(published: Mapping[str, Published], job: JobEnvironment) -> bool:
    """Whether two jobs, `job` among them, claim the same attempt."""
    jobs: dict[tuple[int, str], set[str]] = {
        (job.retry_count, job.command_digest()): {job.job_id},
    }
    for each in published.values():
        ids = jobs.setdefault((each.attempt, each.command), set())
        # An older ci-doctor kept no id: there the command has to do.
        if each.job is not None:
            ids.add(each.job)
    n_jobs = sum(max(len(ids), 1) for ids in jobs.values())
    attempts = {attempt for attempt, _ in jobs}
    return n_jobs > len(attempts)


def decoded(text: str) -> AttemptHistory:
    """The history of `text`; empty if that is somebody else's value."""
    try:
        return AttemptHistory(published=msgspec.json.decode(text, type=dict[str, Published]))
    except msgspec.DecodeError:
        return AttemptHistory(published={})


def encoded(published: Mapping[str, Published]) -> str:
    """`published` as JSON, in at most 1 kB if that can be done without losing a context.

    The causes are shortened first, then the oldest attempts are left out.
    """
    shown = dict(published)
    for shorten in (_with_short_causes, _with_the_last_only, _without_attempts):
        text = msgspec.json.encode(shown).decode()
        if len(text.encode()) <= HISTORY_BYTES:
            return text
        shown = {context: shorten(each) for context, each in shown.items()}
    return msgspec.json.encode(shown).decode()


def one_line_cause(text: str | None, limit: int = CAUSE_CHARACTERS) -> str | None:
    """`text` as a line of at most `limit` characters; None for nothing."""
    line = " ".join((text or "")[: 4 * limit].split())
    if not line:
        return None
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _with_short_causes(published: Published) -> Published:
    before = tuple(_shortened(each) for each in published.before)
    said = published.said
    return replace(published, said=_shortened(said) if said else None, before=before)


def _shortened(attempt: EarlierAttempt) -> EarlierAttempt:
    return replace(attempt, cause=one_line_cause(attempt.cause, _SHORT_CAUSE))


def _with_the_last_only(published: Published) -> Published:
    return replace(published, before=published.before[-2:])


def _without_attempts(published: Published) -> Published:
    return replace(published, before=())


def with_annotation(
    history: AttemptHistory, context: str, job: JobEnvironment, said: EarlierAttempt
) -> dict[str, Published]:
    """What is published once `job` has put its annotation at `context`."""
    before: Sequence[EarlierAttempt] = history.earlier(job)
    own = Published(
        attempt=job.retry_count, command=job.command_digest(), said=said, before=tuple(before)
    )
    return {**history.published, context: own}
