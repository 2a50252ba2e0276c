# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: a job's annotation, in place of those of its earlier attempts."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from ci_doctor.buildkite.agent import Agent, AgentResult
from ci_doctor.buildkite.attempt_history import (
    AttemptHistory,
    Published,
    decoded,
    encoded,
    with_annotation,
)
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.model.job_record import EarlierAttempt

_REPLACED = (
    "An earlier attempt of this job said something here. It was retried: see the last attempt."
)
# From 1 (last) to 10 (first); 3 is Buildkite's own. A passing retry must not keep its place on top.
_PRIORITIES = {"error": 6, "warning": 5}
_USUAL_PRIORITY = 3


class Annotation(Struct, frozen=True, kw_only=True):
    """Markdown, and `success`, `info`, `warning` or `error`.

    said: the same in a few words, for the attempts after this one. without_page: the Markdown
    without its link to an artifact; None if there is none in it.
    """

    body: str
    style: str
    said: EarlierAttempt
    without_page: str | None = None


# From what is known of the earlier attempts to the annotation; None if there is nothing to show.
ShowStep = Callable[[tuple[EarlierAttempt, ...]], Annotation | None]


class AnnotationResult(Struct, frozen=True, kw_only=True):
    """What became of a job's annotation: `annotation` stands at `context` now, if it is not None.

    results: of the annotation, and of whatever else did not work.
    """

    results: tuple[AgentResult, ...]
    annotation: Annotation | None = None
    context: str = ""


def read_history(job: JobEnvironment, agent: Agent) -> tuple[AttemptHistory, AgentResult]:
    """What the attempts of this job have annotated; what cannot be read counts as unknown."""
    key = job.annotations_key()
    text, result = agent.get_metadata(key, default="{}")
    history = decoded(text)
    if history is None:
        message = (
            f"meta-data {key} is no history of annotations: that of an earlier attempt may stay"
        )
        return AttemptHistory(published={}), AgentResult(ok=False, message=message)
    return history, result


def annotate_job(
    show: ShowStep | None,
    history: AttemptHistory,
    read: AgentResult,
    job: JobEnvironment,
    agent: Agent,
) -> AnnotationResult:
    """Annotate the build as `show` says, and remove what earlier attempts left elsewhere.

    With `show` None nothing is annotated, and all that earlier attempts left is removed. `read`:
    how reading the history ended. A failure is a result.
    """
    others = []
    earlier = history.earlier(job)
    # A first attempt has no earlier one, whatever the agent cannot tell.
    if not read.ok and job.retry_count:
        others.append(read)
        earlier = (EarlierAttempt(attempt=job.retry_count - 1),)
    annotation = show(earlier) if show else None
    published = dict(history.published)
    context = history.context(job)
    results = []
    if annotation is not None:
        published = with_annotation(history, context, job, annotation.said)
        # Before the annotation: a job that is cut off between the two leaves none behind unnamed.
        others.append(_keep(published, job, agent))
        results.append(put(annotation.body, annotation, context, agent))
    stale = [each for each in history.stale(job) if annotation is None or each != context]
    others += _without(stale, published, job, agent)
    failed = tuple(result for result in others if not result.ok)
    return AnnotationResult(results=(*results, *failed), annotation=annotation, context=context)


def put(body: str, annotation: Annotation, context: str, agent: Agent) -> AgentResult:
    """Put `body` at `context`, in the style of `annotation` and in its place on the page."""
    priority = _PRIORITIES.get(annotation.style, _USUAL_PRIORITY)
    return agent.annotate(body, style=annotation.style, context=context, priority=priority)


def _without(
    stale: list[str], published: dict[str, Published], job: JobEnvironment, agent: Agent
) -> list[AgentResult]:
    """Remove the annotations at `stale`, and forget those that are gone."""
    if not stale:
        return []
    results = []
    for context in stale:
        removed = _remove(context, agent)
        results.append(removed)
        if removed.ok:
            del published[context]
    results.append(_keep(published, job, agent))
    return results


def _keep(published: Mapping[str, Published], job: JobEnvironment, agent: Agent) -> AgentResult:
    return agent.set_metadata(job.annotations_key(), encoded(published))


def _remove(context: str, agent: Agent) -> AgentResult:
    removed = agent.remove_annotation(context)
    if removed is not None and removed.ok:
        return removed
    # Agents before 3.28 cannot remove one, and those before 3.55 none with a full stop in its
    # context. They can still take the red away.
    return agent.annotate(_REPLACED, style="info", context=context)
