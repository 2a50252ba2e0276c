# SPDX-License-Identifier: Apache-2.0
"""Pure. What the attempts of a job have annotated, as the build's meta-data keeps it."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.decodable import decodable
from ci_doctor.model.facts.build import EarlierAttempt
from ci_doctor.model.words import shortened

# --- what the attempts of a job have annotated, as the build's meta-data keeps it ---
# An annotation outlives the job that made it. So each attempt keeps its context, and in a few words
# what it said, where a retry on any agent reads it.

# "larger than 1 kilobyte … is discouraged"
# (https://buildkite.com/docs/pipelines/configure/build-meta-data).
HISTORY_BYTES = 1000
CAUSE_CHARACTERS = 120
_SHORT_CAUSE = 40


class Published(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who made an annotation: the attempt, from 0, of a job with this digest of its command.

    said: what the annotation says of this attempt. before: what the attempts before it said, the
    oldest first.
    """

    attempt: int
    command: str
    said: EarlierAttempt
    before: tuple[EarlierAttempt, ...] = ()


class AttemptHistory(Struct, frozen=True, kw_only=True):
    """The annotations under a job's key, by context: its own, those of its earlier attempts.

    Jobs of a matrix that nothing tells apart are here too.
    """

    published: dict[str, Published]

    def has_later(self, job: JobEnvironment) -> bool:
        """Whether a later attempt has published: this one was given up as lost.

        One that followed another job, or that ran another command, is of a sibling in a matrix.
        """
        return any(_follows(each, job) for each in self.published.values())

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
            for attempt in (*each.before, each.said):
                if attempt.attempt < job.retry_count:
                    known[attempt.attempt] = attempt
        return tuple(known[number] for number in sorted(known))

    def _own(self, job: JobEnvironment) -> dict[str, Published]:
        """What this very job and its earlier attempts have published.

        In a matrix the command tells the jobs apart. If that is the same too, nobody knows which job is a retry
        of which one: then what the others have published stays.
        """
        reached = {
            context: each
            for context, each in self.published.items()
            if each.attempt <= job.retry_count
        }
        digest = job.command_digest()
        same = {context: each for context, each in reached.items() if each.command == digest}
        for own in (reached, same):
            if not _are_siblings(own, job):
                return own
        return {context: each for context, each in same.items() if each.said.job == job.job_id}


def _follows(later: Published, job: JobEnvironment) -> bool:
    """Whether `later` may be of a retry of `job`."""
    if later.attempt <= job.retry_count or later.command != job.command_digest():
        return False
    replaced = [each.job for each in later.before if each.attempt == job.retry_count]
    return not replaced or job.job_id in replaced


def _are_siblings(published: Mapping[str, Published], job: JobEnvironment) -> bool:
    """Whether two jobs, `job` among them, claim the same attempt."""
    jobs = {(each.attempt, each.command, each.said.job) for each in published.values()}
    jobs.add((job.retry_count, job.command_digest(), job.job_id))
    return len(jobs) > len({attempt for attempt, _, _ in jobs})


def decoded(text: str) -> AttemptHistory | None:
    """The history of `text`; None if that is somebody else's value."""
    try:
        return AttemptHistory(
            published=msgspec.json.decode(text, type=decodable(dict[str, Published]))
        )
    except msgspec.DecodeError:
        return None


def encoded(published: Mapping[str, Published]) -> str:
    """`published` as JSON, in at most 1 kB if that can be done without losing a context.

    The causes are shortened and the oldest attempts left out first, then all earlier attempts.
    """
    shown = dict(published)
    for shorten in (_with_the_last_only, _without_attempts):
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
    return shortened(line, limit)


def _with_the_last_only(published: Published) -> Published:
    before = [
        replace(each, cause=one_line_cause(each.cause, _SHORT_CAUSE))
        for each in (*published.before[-2:], published.said)
    ]
    return replace(published, said=before[-1], before=tuple(before[:-1]))


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
