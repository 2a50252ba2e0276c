# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.correctness.pass_plan import passes_of
from tests.unit.correctness.plans import planned


def test_every_pass_sends_all_requests_and_resets_before_each_but_the_first(
    tmp_path: Path,
) -> None:
    plan = planned(tmp_path, passes=3, concurrency=7)
    passes = passes_of(plan)
    assert [each.resets for each in passes] == [False, True, True]
    assert [each.requests for each in passes] == [plan.requests] * 3
    assert {each.concurrency for each in passes} == {7}
