# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: a job's annotations, in place of those of its earlier attempts.

An annotation outlives the job that made it. A retry replaces those of its own contexts; those of
the others would say for ever what is not true any more. So each attempt keeps its contexts in the
build's meta-data, where a retry on any agent finds them.
"""

import json
from collections.abc import Mapping

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


class Attempts(Struct, frozen=True, kw_only=True):
    """The annotations of this job's attempts so far: the attempt, from 0, that made each context.

    `problem` is what kept the agent from telling.
    """

    of_context: dict[str, int]
    problem: AgentResult | None = None

    def has_later(self, job: JobEnvironment) -> bool:
        """Whether a later attempt has published: this one was given up as lost."""
        return any(attempt > job.retry_count for attempt in self.of_context.values())


def read_attempts(job: JobEnvironment, agent: Agent) -> Attempts:
    """What the attempts of this job have annotated; what cannot be read counts as nothing."""
    text, result = agent.get_metadata(job.annotations_key(), default="{}")
    try:
        found = json.loads(text)
    except ValueError:
        found = {}
    # Somebody else's value under our key is none.
    entries = found.items() if isinstance(found, dict) else ()
    kept = {context: attempt for context, attempt in entries if isinstance(attempt, int)}
    return Attempts(of_context=kept, problem=None if result.ok else result)


def annotate_job(
    annotations: Mapping[str, Annotation], attempts: Attempts, job: JobEnvironment, agent: Agent
) -> list[AgentResult]:
    """Publish `annotations` by context, and remove those that an earlier attempt left elsewhere.

    The results are those of the annotations, and of whatever else did not work.
    """
    # A first attempt has no earlier one, whatever the agent cannot tell.
    others = [attempts.problem] if attempts.problem is not None and job.retry_count else []
    known = {**attempts.of_context, **dict.fromkeys(annotations, job.retry_count)}
    # Before the annotations: a job that is cut off between the two leaves none behind unnamed.
    if known != attempts.of_context:
        others.append(_keep(known, job, agent))
    results = []
    for context, each in annotations.items():
        results.append(agent.annotate(each.body, style=each.style, context=context))
    stale = [context for context, attempt in known.items() if attempt < job.retry_count]
    for context in stale:
        removed = _remove(context, agent)
        others.append(removed)
        if removed.ok:
            del known[context]
    if stale:
        others.append(_keep(known, job, agent))
    return [*results, *(result for result in others if not result.ok)]


def _keep(attempts: Mapping[str, int], job: JobEnvironment, agent: Agent) -> AgentResult:
    return agent.set_metadata(job.annotations_key(), json.dumps(attempts))


def _remove(context: str, agent: Agent) -> AgentResult:
    removed = agent.remove_annotation(context)
    if removed is not None and removed.ok:
        return removed
    # Agents before 3.28 cannot remove one, and those before 3.55 none with a full stop in its
    # context. They can still take the red away.
    return agent.annotate(_REPLACED, style="info", context=context)
