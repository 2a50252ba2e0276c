# SPDX-License-Identifier: Apache-2.0

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.report.differences import differences
from ci_doctor.correctness.report.figures import fact_differences, lines_up, suspects, within
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import AnswerLevel, Comparison
from tests.unit.correctness.experiments import decided, experiment, result
from tests.unit.correctness.numbered import compared, completion, outputs, start


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


def told_of(made: Experiment, requests: list[str]) -> tuple[str, ...]:
    decision = decided(made, len(requests))
    return suspects(made, differences(made, decision, requests))


def told(*results: StartResult) -> tuple[str, ...]:
    return told_of(experiment(*results), list(results[0].start.answers))


def test_passes_whose_numbers_differ_are_no_suspect_of_a_gate_that_holds_them_for_the_same() -> (
    None
):
    one, near = completion("a", -1.0), completion("a", -1.25)
    known = outputs(one, near)
    starts = (start("A1", [one, one]), start("B1", [one, near]))

    assert told_of(compared(Comparison(level=AnswerLevel.WORDS), known, *starts), ["r0"]) == ()
    assert told_of(compared(Comparison(), known, *starts), ["r0"])[0].startswith("answers differ")


def test_swapped_answers_are_recognised() -> None:
    (first, *_) = told(result("A1", "one two"), result("B1", "two one"), result("A2", "one two"))

    assert first == "2 requests were answered as another is: r0 in B1 as r1 in A1"


def test_an_answer_that_several_requests_get_is_nobodys_own() -> None:
    found = told(result("A1", "same same one"), result("B1", "same same same"))

    assert not any("answered as another" in sentence for sentence in found)


def test_passes_that_differ_inside_a_start_are_told_from_starts_that_differ() -> None:
    batching = told(result("A1", "x y x x", passes=2), result("B1", "x x x x", passes=2))
    kernels = told(
        result("A1", "x x x x", passes=2),
        result("B1", "y y x x", passes=2),
        result("A2", "y y x x", passes=2),
    )

    assert (
        "answers differ between passes of one start (1 in A1), as with batching or what a start keeps from earlier requests"
        in batching
    )
    assert (
        "each start repeats itself in all passes, starts differ: as with kernels chosen once per start"
        in kernels
    )
    assert not any("batching" in sentence for sentence in kernels)


def test_a_fact_that_lines_up_with_the_clusters_is_named_with_its_values() -> None:
    def start(name: str, word: str, cublas: str, gpu: str) -> StartResult:
        return result(name, word, facts={"libcublas.so.12": cublas, "gpu": gpu, "driver": "550"})

    found = told(
        start("A1", "x", "12.4", "0"), start("B1", "y", "12.5", "1"), start("A2", "y", "12.5", "0")
    )

    assert "libcublas.so.12 lines up with the clusters: 12.4 in A1, 12.5 in B1 A2" in found
    assert not any(sentence.startswith(("gpu", "driver")) for sentence in found)


def test_broken_connections_are_no_sign_of_what_the_starts_have_loaded() -> None:
    one = result("A1", "x x y y - -", passes=2, facts={"driver": "550"})
    other = result("B1", "x x y y z z", passes=2, facts={"driver": "560"})
    lost = replace(one, errors={"r2": "ReadError"})
    assert told(lost, other) == ()
    # Any other missing answer may follow what the start has loaded, and is no choice of kernels.
    assert told(one, other) == ("driver lines up with the clusters: 550 in A1, 560 in B1",)
