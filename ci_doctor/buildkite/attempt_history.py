# SPDX-License-Identifier: Apache-2.0
"""Pure. What the attempts of a job have annotated, as the build's meta-data keeps it."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.decodable import decodable
from ci_doctor.model.job_record import EarlierAttempt
from ci_doctor.model.verdict import is_green
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
            said = each.said or EarlierAttempt(attempt=each.attempt)
            for attempt in (*each.before, said):
                if attempt.attempt < job.retry_count:
                    known[attempt.attempt] = attempt
        return tuple(known[number] for number in sorted(known))

    def _own(self, job: JobEnvironment) -> dict[str, Published]:
        """What this very job and its earlier attempts have published.

        In a matrix the command tells the jobs apart. If that is the same too, nobody knows which
        job is a retry of which one. Then a retry takes the place of one of them, so that none is
        left once all have been retried.
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
        return _one_of(same, job)


def _follows(later: Published, job: JobEnvironment) -> bool:
    """Whether `later` may be of a retry of `job`."""
    if later.attempt <= job.retry_count or later.command != job.command_digest():
        return False
    replaced = [each.job for each in later.before if each.attempt == job.retry_count]
    return not replaced or job.job_id in replaced


def _one_of(twins: Mapping[str, Published], job: JobEnvironment) -> dict[str, Published]:
    """What `job` has published itself; else one annotation that its attempt comes after.

    A pipeline retries what failed, so that comes before what passed.
    """
    own = {context: each for context, each in twins.items() if each.job == job.job_id}
    before = {context: each for context, each in twins.items() if each.attempt < job.retry_count}
    if own or not before:
        return own
    context = min(before, key=lambda each: (_has_passed(before[each]), -before[each].attempt))
    chosen = before[context]
    if len(before) > 1:
        # It may be of another job: nothing that it says is said of this one.
        chosen = replace(chosen, said=None, before=())
    return {context: chosen}


def _has_passed(published: Published) -> bool:
    return published.said is not None and is_green(published.said.verdict)


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
    return shortened(line, limit)


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
