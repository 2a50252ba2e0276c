# SPDX-License-Identifier: Apache-2.0
"""Pure. The JSON of Buildkite Test Engine, of its collectors and of bktec -> attempts.

https://buildkite.com/docs/test-engine/importing-json
"""

from collections.abc import Mapping
from typing import Any, Final

from ci_doctor.history.evidence import (
    AttemptEvidence,
    AttemptOutcome,
    JobEvidence,
    ParsedEvidence,
)
from ci_doctor.history.reading.failure_cause import cause_of_message
from ci_doctor.history.reading.moments import epoch_ms, milliseconds, moment_ms
from ci_doctor.history.reading.test_scopes import suite_of
from ci_doctor.model.junit_identity import junit_identity

_OUTCOMES: Final = {
    "passed": AttemptOutcome.PASSED,
    "failed": AttemptOutcome.FAILED,
    "skipped": AttemptOutcome.SKIPPED,
}


def is_test_engine(raw: Any) -> bool:
    """Whether decoded JSON is a list of results, or an upload with its `run_env`."""
    results = raw.get("data") if isinstance(raw, dict) else raw
    if not isinstance(results, list) or not results:
        return False
    return all(isinstance(each, dict) and "history" in each and "name" in each for each in results)


def read_test_engine(raw: Any) -> ParsedEvidence:
    """Its results: scope and name identify a test, several of one test are attempts in order."""
    run = raw.get("run_env", {}) if isinstance(raw, dict) else {}
    results = raw["data"] if isinstance(raw, dict) else raw
    counts: dict[tuple[str, str], int] = {}
    attempts = [_attempt(result, counts) for result in results]
    starts = [each.started_ms for each in attempts if each.started_ms is not None]
    job = _job(run if isinstance(run, dict) else {}, min(starts, default=None))
    return ParsedEvidence(form="test-engine", job=job, attempts=tuple(attempts))


def _attempt(result: Mapping[str, Any], counts: dict[tuple[str, str], int]) -> AttemptEvidence:
    suite, name = _identity(str(result.get("scope") or ""), str(result["name"]))
    number = counts.get((suite, name), 0) + 1
    counts[suite, name] = number
    history = result["history"] if isinstance(result["history"], dict) else {}
    reason = result.get("failure_reason")
    # Without a result, or with an unknown one, it shows neither a pass nor a failure.
    outcome = _OUTCOMES.get(str(result.get("result")), AttemptOutcome.SKIPPED)
    start = history.get("start_at")
    return AttemptEvidence(
        suite=suite,
        name=name,
        outcome=outcome,
        number=number,
        # The collectors write a monotonic clock there: a time of this century alone is one.
        started_ms=moment_ms(start) if isinstance(start, str) else _this_century(epoch_ms(start)),
        duration_ms=milliseconds(history.get("duration")),
        cause=cause_of_message(reason)
        if outcome is AttemptOutcome.FAILED and isinstance(reason, str)
        else None,
    )


def _identity(scope: str, name: str) -> tuple[str, str]:
    """Suite and name; the collector for pytest cuts an id at a `::` in its parameters, too."""
    if "[" in scope.partition(".py::")[2]:
        return junit_identity(f"{scope}::{name}")
    return suite_of(scope), name


def _this_century(moment: int | None) -> int | None:
    return moment if moment is not None and moment >= 946_684_800_000 else None


def _job(run: Mapping[str, Any], started_ms: int | None) -> JobEvidence:
    number = str(run.get("number") or "")
    return JobEvidence(
        key=_text(run, "job_id"),
        build=int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None,
        branch=_text(run, "branch"),
        commit=_text(run, "commit_sha"),
        started_ms=started_ms,
    )


def _text(run: Mapping[str, Any], name: str) -> str | None:
    value = run.get(name)
    return value if isinstance(value, str) and value else None
