# SPDX-License-Identifier: Apache-2.0
import threading

from ci_doctor.checks.machine.answers import answers_within


def test_all_that_answer_are_kept() -> None:
    answers = answers_within(60, {"a": lambda: 1, "b": lambda: 2})

    assert answers.values == {"a": 1, "b": 2}
    assert answers.missing == {}


def test_one_that_does_not_answer_does_not_hold_up_the_others() -> None:
    never = threading.Event()
    try:
        answers = answers_within(0.5, {"hangs": never.wait, "answers": lambda: True})
    finally:
        never.set()

    assert answers.values == {"answers": True}
    assert answers.missing == {"hangs": "no answer within 0.5 s"}


def test_an_error_is_the_reason_why_there_is_no_answer() -> None:
    def refused() -> None:
        raise PermissionError(13, "Permission denied")

    def odd() -> None:
        raise ValueError("embedded null byte")

    answers = answers_within(60, {"refused": refused, "odd": odd})

    assert answers.missing == {"refused": "Permission denied", "odd": "embedded null byte"}
