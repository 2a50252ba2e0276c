# SPDX-License-Identifier: Apache-2.0
"""Pure. Parsed evidence -> the same without secrets: a database is for more people than one job's log."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from msgspec.structs import replace

from ci_doctor.history.evidence import AttemptEvidence, JobEvidence, ParsedEvidence
from ci_doctor.model.cause import Cause

Hide = Callable[[str], str]
# A label may hold the values of a matrix, a branch and an agent what somebody typed.
_DESCRIBES: Final = ("pipeline", "step", "label", "branch", "agent", "queue")


def without_secrets(parsed: ParsedEvidence, hide: Hide) -> ParsedEvidence:
    """`parsed` with `hide` applied to names of tests, titles of causes and what describes the job."""
    texts = "\n".join(dict.fromkeys(_texts(parsed)))
    # Once over all of them: hardly any file holds a secret, and one by one takes five times as long.
    if hide(texts) == texts:
        return parsed
    hidden = cache(hide)
    return replace(
        parsed,
        job=job_without_secrets(parsed.job, hidden),
        attempts=tuple(_attempt(each, hidden) for each in parsed.attempts),
    )


def job_without_secrets(job: JobEvidence, hide: Hide) -> JobEvidence:
    """`job` with `hide` applied to its texts; its id and its commit stay, because they identify."""
    hidden: dict[str, Any] = {}
    for name in _DESCRIBES:
        text = getattr(job, name)
        hidden[name] = None if text is None else hide(text)
    return replace(job, cause=_cause(job.cause, hide), **hidden)


def _texts(parsed: ParsedEvidence) -> Iterator[str]:
    for name in _DESCRIBES:
        yield getattr(parsed.job, name) or ""
    if parsed.job.cause is not None:
        yield parsed.job.cause.title
    for attempt in parsed.attempts:
        yield attempt.suite
        yield attempt.name
        if attempt.cause is not None:
            yield attempt.cause.title


def _attempt(attempt: AttemptEvidence, hide: Hide) -> AttemptEvidence:
    return replace(
        attempt,
        suite=hide(attempt.suite),
        name=hide(attempt.name),
        cause=_cause(attempt.cause, hide),
    )


def _cause(cause: Cause | None, hide: Hide) -> Cause | None:
    if cause is None:
        return None
    return replace(cause, title=hide(cause.title))
