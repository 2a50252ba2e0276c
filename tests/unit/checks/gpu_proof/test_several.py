# SPDX-License-Identifier: Apache-2.0
"""Results of several GPUs as one."""

from ci_doctor.checks.gpu_proof.several import combined

from ci_doctor.checks.check import CheckResult, unknown_result


def test_all_that_was_said_stays() -> None:
    one = CheckResult(summary="GPU 0 is fast", figures={"rate": 1})
    other = CheckResult(summary="GPU 1 is slow", figures={"rate": 2})

    result = combined([one, unknown_result("GPU 2 is away"), other])

    assert result.summary == "GPU 0 is fast; GPU 2 is away; GPU 1 is slow"
    assert result.unknown == "GPU 2 is away"
    assert result.figures == {"0_rate": 1, "1_rate": 2}


def test_figures_of_a_single_one_keep_their_names() -> None:
    result = combined([CheckResult(summary="GPU 0 is fast", figures={"rate": 1})])

    assert result.figures == {"rate": 1}
