# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.checks.machine.entropy import CHECK
from tests.support.checks import check_context


def test_a_machine_that_runs_tests_has_random_bytes(tmp_path: Path) -> None:
    assert CHECK.run(check_context(tmp_path)).summary == "random bytes come at once"
