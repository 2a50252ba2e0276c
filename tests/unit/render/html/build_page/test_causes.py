# SPDX-License-Identifier: Apache-2.0
"""Causes and retries as rows: what each cost, and nothing where nobody knows."""

import pytest
from msgspec.structs import replace

from ci_doctor.model.facts.build import BuildFacts, CauseFacts, RetryWorth
from ci_doctor.render.html.axis import build_axis
from ci_doctor.render.html.build_page import figures, hours, page_causes, page_retries, shares
from tests.support.build_pages import ASSERTION, FULL_DISK, a_job, a_step

DISK = replace(FULL_DISK, steps=("a", "b"), jobs=2, seconds=600.0, gpu_seconds=4800.0)
TESTS = replace(ASSERTION, steps=("c",), jobs=1, seconds=150.0)


def test_the_dearest_cause_fills_the_rail_and_the_others_their_part() -> None:
    rows = page_causes(BuildFacts(causes=(DISK, TESTS))).rows

    assert [(row.number, row.took, row.gpu_hours, row.share) for row in rows] == [
        (1, "10 min 00 s", "1.3 h", "100%"),
        (2, "2 min 30 s", "unknown", "25%"),
    ]


def test_a_cost_that_nobody_knows_reads_unknown() -> None:
    cause = replace(DISK, seconds=None, gpu_seconds=None)
    row = page_causes(BuildFacts(causes=(cause,))).rows[0]

    assert (row.took, row.gpu_hours, row.share) == ("unknown", "unknown", "0%")


def test_another_run_is_unknown_where_no_cause_is() -> None:
    unexplained = CauseFacts(fingerprint="x", title="no cause known", steps=("d",), jobs=1)
    rows = page_causes(BuildFacts(causes=(DISK, TESTS, unexplained))).rows

    assert [row.another_run for row in rows] == ["may help", "does not help", "unknown"]


def test_the_agents_on_which_a_cause_struck_are_counted() -> None:
    jobs = [a_job(cause=DISK.fingerprint, agent=agent) for agent in ("g1", "g2", "g2", "g3", "g4")]
    steps = tuple(a_step(f"s{number}", job) for number, job in enumerate(jobs))
    row = page_causes(BuildFacts(build_steps=steps, causes=(DISK,))).rows[0]

    assert row.agents[0] == ("g2", 2)
    assert (len(row.agents), row.agents_left_out) == (3, 1)


def test_many_steps_are_folded_and_bounded() -> None:
    cause = replace(DISK, steps=tuple(f"s{number}" for number in range(300)))
    row = page_causes(BuildFacts(causes=(cause,))).rows[0]

    assert (len(row.first_steps), len(row.more_steps), row.steps_left_out) == (4, 196, 100)


def test_more_causes_than_a_page_holds_are_counted() -> None:
    causes = tuple(
        CauseFacts(fingerprint=str(number), title="x", steps=(), jobs=1) for number in range(103)
    )
    page = page_causes(BuildFacts(causes=causes))

    assert (len(page.rows), page.left_out) == (100, 3)
    assert "102" not in page.numbers


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 h"), (100, "< 0.1 h"), (3600, "1.0 h"), (3.6e7, "10,000.0 h"), (None, "unknown"), (-1, "unknown")],
)  # fmt: skip
def test_gpu_seconds_are_shown_as_hours(seconds: float | None, text: str) -> None:
    assert hours(seconds) == text


def test_a_sum_with_an_unknown_part_is_a_least_and_without_a_known_one_unknown() -> None:
    facts = BuildFacts(build_steps=(a_step("s"),), causes=(DISK, replace(TESTS, seconds=None)))
    shown = dict(figures(facts, build_axis(facts)))

    assert shown["lost to failures"] == "≥ 10 min 00 s"
    assert shown["GPU hours lost"] == "≥ 1.3 h"

    nothing = replace(facts, causes=(replace(TESTS, seconds=None),))
    assert dict(figures(nothing, None))["lost to failures"] == "unknown"


def test_verdicts_share_the_strip_the_worst_first() -> None:
    steps = (a_step("a"), a_step("b"), a_step("c", a_job(verdict="infra")), a_step("d", a_job(verdict="failed")))  # fmt: skip
    rows = shares(BuildFacts(build_steps=steps))

    assert [(row.head.word, row.count, row.x, row.width) for row in rows] == [
        ("FAILED", 1, "0%", "25%"),
        ("INFRA", 1, "25%", "25%"),
        ("PASS", 2, "50%", "50%"),
    ]


def test_retries_are_counted_by_worth_those_that_need_a_look_first() -> None:
    steps = (
        a_step("a", a_job(0, 60, retry=RetryWorth.HELPED), a_job(attempt=1)),
        a_step("b", a_job(0, 30, retry=RetryWorth.HELPED), a_job(attempt=1)),
        a_step("c", a_job(began_at=None, retry=RetryWorth.HID_A_FAILURE), a_job(attempt=1)),
    )
    rows = page_retries(BuildFacts(build_steps=steps))

    assert [(row.worth, row.count, row.took, row.steps) for row in rows] == [
        ("hid a failure", 1, "unknown", ("c",)),
        ("helped", 2, "1 min 30 s", ("a", "b")),
    ]


def test_a_build_without_retries_has_no_rows() -> None:
    assert page_retries(BuildFacts(build_steps=(a_step("s"),))) == ()
