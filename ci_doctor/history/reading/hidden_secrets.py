# SPDX-License-Identifier: Apache-2.0
"""Pure. Parsed evidence -> the same without secrets: a database is for more people than one job's log."""

from collections.abc import Callable, Iterator
from functools import cache

from msgspec.structs import replace

from ci_doctor.history.evidence import AttemptEvidence, EvidenceCause, ParsedEvidence

Hide = Callable[[str], str]


def without_secrets(parsed: ParsedEvidence, hide: Hide) -> ParsedEvidence:
    """`parsed` with `hide` applied to the names of tests and the titles of causes."""
    texts = "\n".join(dict.fromkeys(_texts(parsed)))
    # Once over all of them: hardly any file holds a secret, and one by one takes five times as long.
    if hide(texts) == texts:
        return parsed
    hidden = cache(hide)
    return replace(
        parsed,
        job=replace(parsed.job, cause=_cause(parsed.job.cause, hidden)),
        attempts=tuple(_attempt(each, hidden) for each in parsed.attempts),
    )


def _texts(parsed: ParsedEvidence) -> Iterator[str]:
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


def _cause(cause: EvidenceCause | None, hide: Hide) -> EvidenceCause | None:
    if cause is None:
        return None
    return replace(cause, title=hide(cause.title))
