# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.report.clusters import fact_differences, lines_up, within
from tests.unit.correctness.experiments import experiment, result


def test_a_fact_that_a_start_lacks_differs_and_a_start_that_tells_none_says_nothing() -> None:
    results = [
        result("A1", "x", facts={"libnccl.so.2": "2.20"}),
        result("B1", "x", facts={"gpu": "0"}),
        result("A2", "x"),
    ]

    assert fact_differences(results) == {
        "gpu": {"A1": "none", "B1": "0"},
        "libnccl.so.2": {"A1": "2.20", "B1": "none"},
    }


@pytest.mark.parametrize(
    ("groups", "values", "answer"),
    [
        ([["A1"], ["A2", "B1"]], {"A1": "x", "A2": "y", "B1": "y"}, True),
        ([["A1"], ["A2", "B1"]], {"A1": "x", "A2": "y", "B1": "x"}, False),
        ([["A1"], ["A2", "B1"]], {"A1": "x", "A2": "x", "B1": "x"}, False),
        ([["A1"], ["A2", "B1"]], {"A2": "y", "B1": "y"}, False),
        ([["A1", "A2"]], {"A1": "x", "A2": "y"}, False),
        ([["A1"], ["B1"]], {"A1": "x", "B1": "y"}, True),
        # With a cluster for each start everything would line up.
        ([["A1"], ["A2"], ["B1"]], {"A1": "x", "A2": "y", "B1": "z"}, False),
    ],
)
def test_when_values_line_up_with_clusters(
    groups: list[list[str]], values: dict[str, str], answer: bool
) -> None:
    assert lines_up(groups, values) is answer


def test_how_many_requests_differ_inside_each_start() -> None:
    made = experiment(
        result("A1", "x y x x", passes=2), result("B1", "x x x x", passes=2), result("A2", "x x")
    )

    assert within(made) == {"A1": 1, "B1": 0}
