# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: a job's annotations, in place of those of its earlier attempts.

An annotation outlives the job that made it. A retry replaces those of its own contexts; those of
the others would say for ever what is not true any more. So each attempt keeps its contexts in the
build's meta-data, where a retry on any agent finds them.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from ci_doctor.buildkite.agent import Agent, AgentResult
from ci_doctor.buildkite.job import JobEnvironment

_REPLACED = (
    "An earlier attempt of this job said something here. It was retried: see the last attempt."
)


class Annotation(Struct, frozen=True, kw_only=True):
    """Markdown, and `success`, `info`, `warning` or `error`."""

    body: str
    style: str


class Published(Struct, frozen=True, kw_only=True):
    """Who made an annotation: the attempt, from 0, of a job with this digest of its command."""

    attempt: int
    command: str


class Attempts(Struct, frozen=True, kw_only=True):
    """The annotations of this job's attempts so far, by context.

    `problem` is what kept the agent from telling.
    """

    published: dict[str, Published]
    problem: AgentResult | None = None

    def has_later(self, job: JobEnvironment) -> bool:
        """Whether a later attempt has published: this one was given up as lost."""
        return any(each.attempt > job.retry_count for each in self.published.values())

    def stale(self, job: JobEnvironment) -> list[str]:
        """The contexts of earlier attempts.

        Jobs of a matrix without its values in their labels are here too. Only their commands tell
        them apart.
        """
        makers = {(each.attempt, each.command) for each in self.published.values()}
        is_matrix = len(makers) > len({attempt for attempt, _ in makers})
        return [
            context
            for context, each in self.published.items()
            if each.attempt < job.retry_count
            and (not is_matrix or each.command == job.command_digest())
        ]


def read_attempts(job: JobEnvironment, agent: Agent) -> Attempts:
    """What the attempts of this job have annotated; what cannot be read counts as nothing."""
    text, result = agent.get_metadata(job.annotations_key(), default="{}")
    try:
        published = msgspec.json.decode(text, type=dict[str, Published])
    # Somebody else's value under our key is none.
    except msgspec.DecodeError:
        published = {}
    return Attempts(published=published, problem=None if result.ok else result)


def annotate_job(
    annotations: Mapping[str, Annotation], attempts: Attempts, job: JobEnvironment, agent: Agent
) -> list[AgentResult]:
    """Publish `annotations` by context, and remove those that an earlier attempt left elsewhere.

    The results are those of the annotations, and of whatever else did not work.
    """
    # A first attempt has no earlier one, whatever the agent cannot tell.
    others = [attempts.problem] if attempts.problem is not None and job.retry_count else []
    own = Published(attempt=job.retry_count, command=job.command_digest())
    published = {**attempts.published, **dict.fromkeys(annotations, own)}
    # Before the annotations: a job that is cut off between the two leaves none behind unnamed.
    if published != attempts.published:
        others.append(_keep(published, job, agent))
    results = []
    for context, each in annotations.items():
        results.append(agent.annotate(each.body, style=each.style, context=context))
    stale = [context for context in attempts.stale(job) if context not in annotations]
    for context in stale:
        removed = _remove(context, agent)
        others.append(removed)
        if removed.ok:
            del published[context]
    if stale:
        others.append(_keep(published, job, agent))
    return [*results, *(result for result in others if not result.ok)]


def _keep(published: Mapping[str, Published], job: JobEnvironment, agent: Agent) -> AgentResult:
    text = msgspec.json.encode(published).decode()
    return agent.set_metadata(job.annotations_key(), text)


def _remove(context: str, agent: Agent) -> AgentResult:
    removed = agent.remove_annotation(context)
    if removed is not None and removed.ok:
        return removed
    # Agents before 3.28 cannot remove one, and those before 3.55 none with a full stop in its
    # context. They can still take the red away.
    return agent.annotate(_REPLACED, style="info", context=context)
