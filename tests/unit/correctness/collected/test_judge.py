# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.collected.judge import can_see, judge
from ci_doctor.correctness.settings import Rules, StartOrder
from ci_doctor.model.verdict import Verdict
from tests.unit.correctness.collected.sample_files import collect

RULES = Rules(order=StartOrder.EXCHANGEABLE)


@pytest.mark.parametrize(
    ("baseline", "candidate", "verdict"),
    [
        (["x y"], ["x y"], Verdict.PASS),
        (["x y"], ["x z"], Verdict.INCONCLUSIVE),
        (["x y", "x z"], ["x y"], Verdict.FLAKY),
        (["x y"] * 5, ["x z"] * 3, Verdict.REGRESSION),
        (["x -"], ["x -"], Verdict.VOID),
    ],
)
def test_collected_samples_get_the_verdict_of_an_experiment(
    tmp_path: Path, baseline: list[str], candidate: list[str], verdict: Verdict
) -> None:
    assert judge(collect(tmp_path, baseline, candidate), RULES).verdict is verdict


def test_equal_files_say_so_in_bytes(tmp_path: Path) -> None:
    decision = judge(collect(tmp_path, ["x y"], ["x y"]), RULES)

    assert decision.reason == (
        "all 2 answers are the same, byte for byte, in 1 baseline and 1 candidate starts"
    )
    assert len(decision.kinds) == 2


def test_an_undecided_comparison_says_how_many_starts_would_settle_it(tmp_path: Path) -> None:
    settle = judge(collect(tmp_path, ["x"], ["y"]), RULES).settle

    assert settle is not None
    assert settle.startswith("a decision takes 6 baseline and 3 candidate starts: collect 5 and 2")


@pytest.mark.parametrize("answers", ["x", "0", "é", "x -"])
def test_a_changed_answer_is_noticed(tmp_path: Path, answers: str) -> None:
    assert can_see(collect(tmp_path, [answers], [answers]), RULES)
