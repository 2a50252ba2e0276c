# SPDX-License-Identifier: Apache-2.0

from pathlib import Path

import pytest
import sqlalchemy as sa

from ci_doctor.errors import UsageError
from ci_doctor.history.database import TEST, Question
from ci_doctor.history.evidence import AttemptOutcome, stored_text
from ci_doctor.history.one_test import (
    attempts_of,
    began_facts,
    named_test,
    one_test_facts,
)
from ci_doctor.history.outcomes import one_test_outcome
from ci_doctor.model.facts.history import BeganFacts
from tests.support.histories import WHOLE, F, I, P, history, run


def began(tmp_path: Path, outcomes: list[AttemptOutcome]) -> BeganFacts:
    facts = began_or_none(tmp_path, outcomes)
    assert facts is not None
    return facts


def began_or_none(tmp_path: Path, outcomes: list[AttemptOutcome]) -> BeganFacts | None:
    runs = [run([("x", each)], at=at, commit=f"c{at:02}") for at, each in enumerate(outcomes)]
    with history(tmp_path / "h.sqlite", runs) as connection:
        test = named_test(connection, "x")
        attempts = attempts_of(Question(connection, WHOLE), test.number)
    return began_facts(test, attempts)


def test_the_first_bad_commit_and_the_last_good_one_are_named(tmp_path: Path) -> None:
    facts = began(tmp_path, [P] * 60 + [F] * 39)

    assert (facts.last_good, facts.first, facts.last) == ("c59", "c60", "c60")
    assert facts.probability > 0.99
    assert not facts.is_better
    assert (facts.rate_before.rate, facts.rate_after.rate) == (0, 1)


def test_noisy_runs_give_an_interval_that_holds_the_change(tmp_path: Path) -> None:
    facts = began(tmp_path, [P] * 40 + [F, P, P, F, P, F, F, P] * 3)

    assert facts.first is not None
    assert facts.last is not None
    assert facts.first <= "c40" <= facts.last
    assert facts.probability > 0.95


def test_a_failure_for_a_reason_outside_is_no_run(tmp_path: Path) -> None:
    facts = began(tmp_path, [P] * 10 + [I] * 10 + [P] * 10)

    assert facts.runs == 20
    assert facts.probability < 0.5


def test_a_repair_is_a_change_for_the_better(tmp_path: Path) -> None:
    assert began(tmp_path, [F] * 10 + [P] * 10).is_better


def test_one_commit_is_too_few(tmp_path: Path) -> None:
    assert began_or_none(tmp_path, [P]) is None


def test_a_failure_on_a_broken_machine_is_one_of_infrastructure(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(40)]
    runs = [run([(name, P) for name in names], at=at, commit=f"c{at}") for at in range(30)]
    runs.append(run([(name, F) for name in names], at=29, commit="c29", agent="gpu-7"))

    with history(tmp_path / "h.sqlite", runs) as connection:
        test = connection.scalar(sa.select(TEST.c.id).where(TEST.c.name == "t0"))
        attempts = attempts_of(Question(connection, WHOLE), test or 0)

    assert [each.outcome for each in attempts if each.agent == "gpu-7"] == ["infra"]
    assert [each.outcome for each in attempts if each.agent == "gpu-1"] == ["passed"] * 30


def test_a_test_that_has_no_result_of_its_own_has_no_rate(tmp_path: Path) -> None:
    with history(tmp_path / "h.sqlite", [run([("x", I)], at=1)]) as connection:
        test = named_test(connection, "x")
        facts = one_test_facts(test, attempts_of(Question(connection, WHOLE), test.number))

    assert facts is not None
    assert "neither passed nor failed by itself" in one_test_outcome(facts).summary


RUNS = [run([("test_reuse[8]", P), ("test_reuse[16]", P), ("test_100%", P)], at=1)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("tests/test_a.py::test_reuse[8]", "test_reuse[8]"),
        ("tests.test_a::test_reuse[8]", "test_reuse[8]"),
        ("test_reuse[8]", "test_reuse[8]"),
        ("reuse[16", "test_reuse[16]"),
        ("100%", "test_100%"),
    ],
)
def test_a_test_is_found_by_its_node_id_its_name_or_a_part(
    tmp_path: Path, text: str, name: str
) -> None:
    with history(tmp_path / "h.sqlite", RUNS) as connection:
        assert named_test(connection, text).name == name


def test_a_part_of_several_names_names_them(tmp_path: Path) -> None:
    with (
        history(tmp_path / "h.sqlite", RUNS) as connection,
        pytest.raises(UsageError, match="one of several") as caught,
    ):
        named_test(connection, "reuse")

    assert caught.value.hint is not None
    assert "`tests.test_a::test_reuse[16]`, `tests.test_a::test_reuse[8]`" in caught.value.hint


def test_a_percent_sign_is_no_pattern(tmp_path: Path) -> None:
    with (
        history(tmp_path / "h.sqlite", RUNS) as connection,
        pytest.raises(UsageError, match="no test"),
    ):
        named_test(connection, "%%")


def test_a_very_long_name_is_found_by_its_whole_text(tmp_path: Path) -> None:
    name = "test_" + "x" * 5_000
    stored = run([(stored_text(name), P)], at=1)

    with history(tmp_path / "h.sqlite", [stored]) as connection:
        assert named_test(connection, f"tests/test_a.py::{name}").name == stored_text(name)
