from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.history.database import ALL_BRANCHES
from ci_doctor.history.evidence import AttemptOutcome
from ci_doctor.history.one_test import attempts_of, began_facts, named_test
from ci_doctor.model.facts.history import BeganFacts
from tests.support.histories import WHOLE, F, I, P, history, run


def began(tmp_path: Path, outcomes: list[AttemptOutcome]) -> BeganFacts:
    runs = [run([("x", each)], at=at, commit=f"c{at:02}") for at, each in enumerate(outcomes)]
    with history(tmp_path / "h.sqlite", runs) as connection:
        test = named_test(connection, "x")
        attempts = attempts_of(connection, test.number, WHOLE, ALL_BRANCHES)
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
    with pytest.raises(UsageError, match="nothing can have begun"):
        began(tmp_path, [P])
