# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.diagnosis.lines.clean_line import clean_line


@pytest.mark.parametrize("raw", [b"nl\x1b[0m  1) closes twice", b"nl  1) closes twice"])
def test_the_mark_of_a_carriage_return_is_no_word(raw: bytes) -> None:
    assert clean_line(raw).text == "  1) closes twice"


def test_a_word_that_begins_like_the_mark_stays() -> None:
    assert clean_line(b"nlohmann/json.hpp").text == "nlohmann/json.hpp"


def test_the_choice_of_a_character_set_is_an_escape() -> None:
    assert clean_line(b"test a ... \x1b[31mFAILED\x1b(B\x1b[m").text == "test a ... FAILED"
