# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.evidence.begin_run import write_limits, write_run
from ci_doctor.correctness.evidence.order_seed import with_order
from ci_doctor.correctness.evidence.run_identity import RunIdentity, read_run
from ci_doctor.correctness.settings import Rules
from ci_doctor.errors import UsageError


def begun(directory: Path, seed: int, *limits: int) -> Path:
    identity = RunIdentity(requests="", hashes={}, settings={"seed": seed})
    write_run(directory, identity, limits)
    return directory


def test_a_new_run_without_a_seed_draws_one_each_time() -> None:
    seeds = {with_order(Rules(), None, None).seed for _ in range(4)}
    assert len(seeds) > 1


def test_a_seed_that_was_given_is_the_runs() -> None:
    assert with_order(Rules(), 0, None).seed == 0


def test_a_resumed_run_keeps_its_seed_unless_another_is_given(tmp_path: Path) -> None:
    run = begun(tmp_path, 4242, 16)
    assert with_order(Rules(), None, run).seed == 4242
    # Another seed is another run: `check_resumable` refuses it.
    assert with_order(Rules(), 7, run).seed == 7


def test_where_there_is_no_run_the_reason_is_left_to_the_one_who_resumes(tmp_path: Path) -> None:
    assert with_order(Rules(), None, tmp_path).earlier_max_starts == ()


def test_a_larger_limit_is_kept_beside_the_earlier_ones(tmp_path: Path) -> None:
    run = begun(tmp_path, 1, 16)
    rules = with_order(Rules(max_starts=32), None, run)
    assert rules.limits == (16, 32)
    write_limits(run, rules.limits)
    assert with_order(Rules(max_starts=32), None, run).limits == (16, 32)
    assert with_order(Rules(max_starts=64), None, run).limits == (16, 32, 64)
    assert read_run(run).identity.settings == {"seed": 1}


def test_a_smaller_limit_is_refused_before_anything_changes(tmp_path: Path) -> None:
    run = begun(tmp_path, 1, 16, 32)
    with pytest.raises(UsageError, match=r"max_starts 32 -> 16") as refusal:
        with_order(Rules(max_starts=16), None, run)
    assert "--max-starts 32 or more" in str(refusal.value.hint)
