# SPDX-License-Identifier: Apache-2.0
"""What is kept of a job's attempts in the build's meta-data."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.publish import (
    HISTORY_BYTES,
    AttemptHistory,
    Published,
    decoded,
    encoded,
    one_line_cause,
    with_annotation,
)
from ci_doctor.model.facts.build import EarlierAttempt

JOB = JobEnvironment(job_id="0190-j1", step_key="e2e", command="a")


def said(attempt: int, cause: str = "disk full") -> EarlierAttempt:
    return EarlierAttempt(
        attempt=attempt,
        verdict="infra",
        cause=cause,
        exit_status=75,
        job=f"0190-{attempt}-{'a' * 28}",
    )


def read(text: str) -> AttemptHistory:
    history = decoded(text)
    assert history is not None
    return history


def kept(attempts: int, cause: str = "disk full") -> AttemptHistory:
    """What is left after so many attempts, each written and read again."""
    history = AttemptHistory(published={})
    for attempt in range(attempts):
        job = replace(JOB, job_id=f"0190-{attempt}-{'a' * 28}", retry_count=attempt)
        published = with_annotation(history, history.context(job), job, said(attempt, cause))
        history = read(encoded(published))
    return history


def test_each_attempt_is_kept_for_those_after_it() -> None:
    retry = replace(JOB, job_id="0190-j4", retry_count=3)

    assert kept(3).earlier(retry) == (said(0), said(1), said(2))


def test_many_attempts_take_less_than_a_kilobyte_and_the_last_ones_stay() -> None:
    history = kept(11, "在" * 120)

    assert len(encoded(history.published).encode()) <= HISTORY_BYTES
    last = history.earlier(replace(JOB, job_id="0190-j11", retry_count=11))[-1]
    assert (last.attempt, last.verdict) == (10, "infra")
    assert last.cause is not None
    assert last.cause.startswith("在")


def test_a_cause_is_one_line() -> None:
    assert one_line_cause(" a\n\tb ") == "a b"
    assert one_line_cause("\n") is None
    assert one_line_cause(None) is None
    assert one_line_cause("x" * 1_000_000, 10) == "xxxxxxxxx…"


@given(
    st.dictionaries(
        st.text(max_size=30),
        st.builds(
            Published,
            attempt=st.integers(0, 20),
            command=st.text(max_size=12),
            said=st.builds(EarlierAttempt, attempt=st.integers(0, 20)),
        ),
        max_size=5,
    )
)
def test_no_context_is_lost(published: dict[str, Published]) -> None:
    assert read(encoded(published)).published.keys() == published.keys()
