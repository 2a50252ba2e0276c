# SPDX-License-Identifier: Apache-2.0
from ci_doctor.correctness.command_line import command_line


def test_options_take_the_place_of_those_that_stand_there() -> None:
    argv = ["correctness", "--only", "a", "--only=b", "--passes", "2", "--budget", "9m"]
    made = command_line(argv, ["--passes", "1"], ["--only"])
    assert made == "ci-doctor correctness --passes 1"


def test_the_value_of_a_new_option_removes_no_word() -> None:
    argv = ["correctness", "--candidate", "r1", "--concurrency", "40"]
    made = command_line(argv, ["--only", "r1"])
    assert made == "ci-doctor correctness --candidate r1 --concurrency 40 --only r1"
