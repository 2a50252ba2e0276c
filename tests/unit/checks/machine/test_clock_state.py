# SPDX-License-Identifier: Apache-2.0
from ci_doctor.checks.machine.clock_state import read_clock_state


def test_the_kernel_answers_without_any_right_of_ours() -> None:
    state = read_clock_state()

    assert state.estimated_error_s >= 0
