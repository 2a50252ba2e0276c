# SPDX-License-Identifier: Apache-2.0
from ci_doctor.correctness.estimate import Estimate, assumed, corrected
from ci_doctor.correctness.next_run import extended_run, new_run, resumed_run
from ci_doctor.correctness.settings import Arm

A, B = Arm.BASELINE, Arm.CANDIDATE
SLOW = assumed(requests=100, passes=1, concurrency=2)


def measured(seconds: float) -> Estimate:
    return corrected(SLOW, [(A, seconds)])


def test_what_would_settle_it_is_a_command_to_paste() -> None:
    argv = [
        "correctness",
        "--budget",
        "25m",
        "--candidate",
        "vllm serve m --port {port}",
        "--resume=x",
        "--passes",
        "2",
    ]
    sentence = resumed_run(measured(60.0), (A, B, A, B, A), argv, "my report", reserve_s=12.0)
    assert sentence == (
        "up to 5 more starts, about 5 min 00 s at 1 min 00 s a start (measured in 1 start): "
        "ci-doctor correctness --candidate 'vllm serve m --port {port}' --passes 2 --resume 'my report' --budget 7m"
    )


def test_the_value_of_another_option_is_not_taken_for_an_option() -> None:
    sentence = resumed_run(measured(60.0), (A,), ["correctness", "--resume", "--budget", "-v"], "d")
    assert sentence.endswith("ci-doctor correctness -v --resume d --budget 2m")


def test_a_run_that_made_every_start_goes_on_to_a_larger_limit() -> None:
    argv = ["correctness", "--max-starts", "20", "--report-dir=old", "--budget", "9m"]
    assert extended_run(measured(60.0), (A, B) * 10, argv, "old", 40) == (
        "up to 20 more starts, about 20 min 00 s at 1 min 00 s a start (measured in 1 start): "
        "ci-doctor correctness --resume old --max-starts 40 --budget 26m"
    )


def test_the_policy_any_is_settled_by_a_new_run_that_makes_more() -> None:
    argv = ["correctness", "--retries", "3", "--resume=old", "--budget", "9m"]
    assert new_run(SLOW, (A, B) * 4, argv, 5) == (
        "a new run of up to 8 starts, about 10 min 40 s at 1 min 20 s a start (assumed: 30 s to be ready, 1 s an answer): "
        "ci-doctor correctness --retries 5 --budget 14m"
    )
