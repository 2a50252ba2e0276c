# SPDX-License-Identifier: Apache-2.0
"""The steps as rows: words for every attempt, and a bar where its time is known."""

import pytest
from msgspec.structs import replace

from ci_doctor.model.facts.build import BuildFacts, RetryWorth, StepFacts
from ci_doctor.render.html.build_page.axis import build_axis
from ci_doctor.render.html.build_page.steps import PageStep, PageSteps, page_steps
from tests.support.build_pages import FULL_DISK, a_job, a_step
from tests.support.builds import BUILD_URL

JOB = "01935c7e-0000-4000-8000-000000000001"


def _rows(*steps: StepFacts, **changes: object) -> PageSteps:
    facts = replace(BuildFacts(build_steps=steps, build_url=BUILD_URL), **changes)
    return page_steps(facts, build_axis(facts), {FULL_DISK.fingerprint: 1})


def _row(*steps: StepFacts, **changes: object) -> PageStep:
    return _rows(*steps, **changes).rows[0]


def test_an_attempt_says_when_it_began_how_long_it_took_and_how_long_it_was_queued() -> None:
    attempt = _row(a_step("s", a_job(60, 302, queued_s=60))).attempts[0]

    assert (attempt.began, attempt.took, attempt.queued) == ("+1 min 00 s", "5 min 02 s", "1 min 00 s")  # fmt: skip


def test_what_nobody_knows_reads_unknown_and_has_no_bar() -> None:
    job = a_job(began_at=None, ended_at=None, verdict="missing")
    attempt = _row(a_step("s", job)).attempts[0]

    assert (attempt.began, attempt.took, attempt.queued) == ("unknown",) * 3
    assert attempt.bar is None
    assert attempt.head.word == "MISSING"


def test_an_unknown_queue_draws_none_before_the_bar() -> None:
    attempt = _row(a_step("s", a_job(60, 60)), a_step("t", a_job(0, 120))).attempts[0]

    assert attempt.bar is not None
    assert (attempt.bar.x, attempt.bar.width, attempt.bar.queue) == ("50%", "50%", None)


def test_the_queue_stands_before_the_bar() -> None:
    attempt = _row(a_step("s", a_job(50, 50, queued_s=25)), a_step("t", a_job(0, 100))).attempts[0]

    assert attempt.bar is not None
    assert attempt.bar.queue == ("25%", "50%")


def test_a_retry_is_joined_to_the_attempt_before_it() -> None:
    first = a_job(0, 20, verdict="infra", retry=RetryWorth.HELPED)
    row = _row(a_step("s", first, a_job(50, 50, attempt=1)))
    bars = [attempt.bar for attempt in row.attempts]

    assert all(bars)
    assert [(bar.since, bar.until) for bar in bars if bar] == [(None, "20%"), ("20%", None)]
    assert row.attempts[0].retry == "retry helped"
    assert row.is_retried


@pytest.mark.parametrize("worth", RetryWorth)
def test_every_worth_of_a_retry_has_its_words(worth: RetryWorth) -> None:
    attempt = _row(a_step("s", a_job(retry=worth), a_job(attempt=1))).attempts[0]

    assert attempt.retry
    assert attempt.retry_hid is (worth is RetryWorth.HID_A_FAILURE)


def test_the_shortest_job_can_be_seen_also_at_the_end() -> None:
    row = _row(a_step("s", a_job(99_999, 1)), a_step("t", a_job(0, 100_000)))
    bar = row.attempts[0].bar

    assert bar is not None
    assert (bar.x, bar.width, bar.end) == ("99.75%", "0.25%", "100%")


def test_a_failure_shows_its_cause_and_leads_to_it() -> None:
    job = a_job(verdict="infra", cause=FULL_DISK.fingerprint, summary="exit status 1")
    attempt = _row(a_step("s", job), causes=(FULL_DISK,)).attempts[0]

    assert (attempt.why, attempt.cause) == (FULL_DISK.title, 1)
    assert attempt.where == "gpu-1 · queue h200 · 8 GPUs"


def test_a_failure_without_a_cause_shows_what_the_job_said() -> None:
    attempt = _row(a_step("s", a_job(verdict="failed", summary="3 tests failed"))).attempts[0]

    assert (attempt.why, attempt.cause) == ("3 tests failed", None)


def test_a_job_without_an_address_is_reached_through_its_build() -> None:
    assert _row(a_step("s", a_job(url=None))).attempts[0].url == f"{BUILD_URL}#{JOB}"


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "//x.example", "https://x/<script>"])  # fmt: skip
def test_only_an_address_of_the_web_becomes_a_link(url: str) -> None:
    attempt = _row(a_step("s", a_job(url=url)), build_url=url).attempts[0]

    assert attempt.url is None


def test_a_job_id_that_is_none_makes_no_link() -> None:
    job = a_job(job="../x#y", url=None)

    assert _row(a_step("s", job)).attempts[0].url is None


def test_steps_know_their_place_by_begin_those_without_a_time_come_last() -> None:
    steps = (a_step("c", a_job(50)), a_step("x", a_job(began_at=None)), a_step("a", a_job(0)))

    assert [row.rank for row in _rows(*steps).rows] == [1, 2, 0]


def test_failures_are_steps_whose_last_attempt_did_not_pass() -> None:
    hidden = a_step("h", a_job(verdict="failed"), a_job(attempt=1))
    failed = a_step("f", a_job(verdict="failed"))
    strange = a_step("n", a_job(verdict="a word of a later version"))
    rows = _rows(hidden, failed, strange)

    assert [row.is_fine for row in rows.rows] == [True, False, False]
    assert rows.failures == 2


def test_a_step_without_attempts_keeps_its_row() -> None:
    step = StepFacts(name="s", verdict="missing", attempts=())

    assert [row.attempts for row in _rows(step).rows] == [()]


def test_more_steps_than_a_page_holds_are_counted() -> None:
    rows = _rows(*[a_step(f"s{number}") for number in range(2003)])

    assert (len(rows.rows), rows.left_out) == (2000, 3)


def test_the_key_names_each_verdict_that_a_bar_has() -> None:
    first = a_job(0, 20, verdict="infra", retry=RetryWorth.HELPED)
    rows = _rows(a_step("s", first, a_job(50, 50, attempt=1)))

    assert rows.key == (("infra", "INFRA"), ("pass", "PASS"))


def test_an_attempt_with_a_wrong_clock_has_no_bar_and_no_time_of_the_build() -> None:
    rows = _rows(a_step("s", a_job(0, 20)), a_step("t", a_job(5 * 365 * 86400, 20)))
    attempt = rows.rows[1].attempts[0]

    assert attempt.bar is None
    assert (attempt.began, attempt.took) == ("another day", "20.0 s")
