# SPDX-License-Identifier: Apache-2.0
from msgspec.structs import replace

from ci_doctor.correctness.report.certainty import certainty_tables, order_tables
from ci_doctor.correctness.settings import Policy, Rules
from ci_doctor.correctness.verdict.decision import Decision, RequestBound
from ci_doctor.model.table import Table
from ci_doctor.model.verdict import Verdict
from tests.support.tables import lines_of
from tests.unit.correctness.experiments import decided, experiment, first_look, result

BOUNDS = (
    RequestBound(request="r12", differed=1, starts=3, bound=0.8601),
    RequestBound(request="r3", differed=0, starts=3, bound=0.708),
    RequestBound(request="r4", differed=0, starts=3, bound=0.708),
)
FLAKY = Decision(verdict=Verdict.FLAKY, reason="", bounds=BOUNDS)


def titled(tables: tuple[Table, ...], title: str) -> list[str]:
    (table,) = (table for table in tables if table.title == title)
    return [" ".join(line.split()) for line in lines_of(table)]


def test_a_regression_shows_the_mix_of_answers_that_carries_it() -> None:
    made = experiment(*first_look("same two", "same three"))
    tables = certainty_tables(made.starts, decided(made))
    assert titled(tables, "Mix of answers") == ["baseline candidate", "r1 a 4, b 0 a 0, b 5"]


def test_an_answer_that_is_missing_is_part_of_the_mix_and_rare_ones_are_counted_together() -> None:
    words = ("one", "two", "three", "four", "u", "u")
    made = experiment(
        *(result(f"A{number}", word) for number, word in enumerate(words, start=1)),
        *(result(f"B{number}", "-") for number in range(1, 5)),
    )
    decision = decided(experiment(*first_look("same", "x")), 1)
    (mix,) = titled(certainty_tables(made.starts, decision), "Mix of answers")[1:]
    assert mix == "r0 a 1, b 1, e 2, no answer 0, others 2 a 0, b 0, e 0, no answer 4"


def test_archived_starts_have_a_column_of_their_own() -> None:
    made = experiment(*first_look("same two", "same three"))
    old = result("A1", "same three")
    starts = (replace(old.start, archived=True), *made.starts)
    tables = certainty_tables(starts, decided(made))
    assert titled(tables, "Mix of answers")[1] == "r1 a 4, b 0 a 0, b 5 a 0, b 1"


def test_every_look_is_listed_with_what_it_may_spend() -> None:
    made = experiment(*first_look("same two", "same three"))
    decision = decided(made)
    assert decision.test is not None
    (look,) = decision.test.looks
    header, line = titled(certainty_tables(made.starts, decision), "Looks")
    assert header == "starts p declared at decision"
    assert line == f"look 1 9 {look.p:.3g} {look.limit:.3g} regression"


def test_a_pass_without_a_difference_has_no_further_table() -> None:
    made = experiment(result("A1", "x x"), result("B1", "x x"))
    assert certainty_tables(made.starts, decided(made)) == ()


def test_the_risk_is_named_by_request_the_worst_first() -> None:
    assert titled(certainty_tables((), FLAKY), "Risk by request") == [
        "r12 differed in 1 of 3 starts: a fault on it in up to 87 % of starts is not excluded",
        "each of the 2 other requests: up to 71 %",
    ]


def test_of_many_requests_the_worst_five_are_named() -> None:
    many = tuple(replace(BOUNDS[0], request=f"r{number}") for number in range(9))
    lines = titled(certainty_tables((), replace(FLAKY, bounds=many)), "Risk by request")
    assert [line.split()[0] for line in lines[:5]] == ["r0", "r1", "r2", "r3", "r4"]
    assert lines[5:] == ["and 4 more requests with a lower limit, or the same"]


def test_a_bound_is_never_rounded_down() -> None:
    exact = replace(FLAKY, bounds=(replace(BOUNDS[0], bound=0.29),))
    assert "up to 29 % of" in titled(certainty_tables((), exact), "Risk by request")[0]


def test_the_policy_any_draws_no_order() -> None:
    made = [result("A1", "x"), result("B1", "x")]
    assert list(order_tables(made, Rules(policy=Policy.ANY))) == []
    assert list(order_tables((), Rules())) == []
