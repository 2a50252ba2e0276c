# SPDX-License-Identifier: Apache-2.0
"""The second reading of samples, against samples by hand."""

import json
from typing import Any

from benchmarks.real_servers.readings import Reading, answers, reading


def line(arm: str, text: str, number: float, *, start: int = 1, number_of: int = 1) -> str:
    choice: dict[str, Any] = {
        "index": 0,
        "text": text,
        "finish_reason": "length",
        "token_ids": [len(text)],
        "logprobs": {"tokens": [text], "token_logprobs": [number], "top_logprobs": [{"z": -4.0}]},
    }
    sample = {"arm": arm, "start": start, "pass": number_of, "id": "r0"}
    return json.dumps(sample | {"output": {"choices": [choice]}})


def read(*lines: str) -> Reading:
    return reading(answers(lines))


def test_equal_answers_differ_nowhere() -> None:
    assert read(line("baseline", "a", -1.0), line("candidate", "a", -1.0)) == (0, 0, 0, 0.0)


def test_numbers_alone_leave_words_and_tokens_the_same() -> None:
    assert read(line("baseline", "a", -1.0), line("candidate", "a", -1.5)) == (0, 0, 1, 0.5)


def test_numbers_of_other_words_are_not_held_beside_each_other() -> None:
    assert read(line("baseline", "a", -1.0), line("candidate", "bb", -9.0)) == (1, 1, 1, 0.0)


def test_a_start_that_differs_in_one_pass_differs() -> None:
    baseline = [line("baseline", "a", -1.0, number_of=number) for number in (1, 2)]
    candidate = [line("candidate", "a", -number, number_of=number) for number in (1, 2)]

    assert read(*baseline, *candidate) == (0, 0, 1, 1.0)


def test_a_control_is_no_answer() -> None:
    control = line("candidate", "other", -1.0, number_of=0)

    assert read(line("baseline", "a", -1.0), line("candidate", "a", -1.0), control).words == 0


def test_a_request_that_failed_is_no_answer() -> None:
    failed = json.loads(line("candidate", "", -1.0)) | {"output": None, "error": "HTTP 500"}

    assert read(line("baseline", "a", -1.0), json.dumps(failed)) == (0, 0, 0, 0.0)
