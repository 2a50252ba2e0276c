# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.correctness.report.recorded import read_request
from ci_doctor.correctness.verdict.compare import DifferenceKind
from ci_doctor.errors import UsageError
from tests.unit.correctness.report.recorded_runs import answer, line, write_run

X = answer("a", "x")
Y = answer("a", "y")


def test_a_request_is_read_back_with_every_start_and_pass(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        line("A1", "r0", X),
        line("A1", "r1", Y),
        line("A1", "r0", X, 2),
        line("B1", "r0", Y),
        line("B1", "r0", None, 2),
        '{"arm": "basel',
    )

    recorded = read_request(run, "r0")

    assert [start.name for start in recorded.starts] == ["A1", "B1"]
    assert (recorded.passes, recorded.unreadable) == (2, 1)
    assert len(recorded.starts[0].digests) == 2
    assert len(recorded.starts[1].digests) == 1
    assert recorded.kind is DifferenceKind.CHANGED


def test_a_line_with_half_a_surrogate_pair_is_read(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", line("A1", "r0", answer("\ud800", "x")))

    assert read_request(run, "r0").unreadable == 0


@pytest.mark.parametrize(
    ("ids", "hint"),
    [
        (["request-1"], "did you mean `request-1`?"),
        (["a", "b"], "known names: a, b"),
        ([f"n{number}" for number in range(11)], "it sent 11 requests: n0, n1, n2, n3, n4 …"),
    ],
)
def test_an_unknown_request_gets_a_hint(tmp_path: Path, ids: list[str], hint: str) -> None:
    run = write_run(tmp_path / "run", *(line("A1", each, X) for each in ids))

    with pytest.raises(UsageError) as raised:
        read_request(run, "request-2")

    assert raised.value.hint == hint


def test_a_directory_without_samples_and_an_empty_file_are_errors_of_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no samples of a run"):
        read_request(tmp_path, "r0")
    with pytest.raises(UsageError, match="holds no sample"):
        read_request(write_run(tmp_path / "run"), "r0")


@pytest.mark.parametrize(
    "output",
    [
        {"choices": [{"message": ["a"]}]},
        {"choices": [{"message": {"tool_calls": 5}}]},
        {"choices": 5},
        {"choices": [{"text": 5}]},
        {},
    ],
)
def test_what_has_the_shape_of_no_answer_is_unreadable(
    tmp_path: Path, output: dict[str, Any]
) -> None:
    good = answer("a", "x")
    run = write_run(tmp_path, line("A1", "r0", output), line("A2", "r0", good))
    recorded = read_request(run, "r0")
    assert [start.name for start in recorded.starts] == ["A2"]
    assert recorded.unreadable == 1


@pytest.mark.parametrize("number", [0, -1, 10**9])
def test_a_pass_that_cannot_be_is_unreadable(tmp_path: Path, number: int) -> None:
    good = answer("a", "x")
    run = write_run(tmp_path, line("A1", "r0", good, number), line("A2", "r0", good))
    assert read_request(run, "r0").unreadable == 1
