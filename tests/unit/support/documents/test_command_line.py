# SPDX-License-Identifier: Apache-2.0
"""Command lines that the real parser takes or refuses, and none is run."""

import pytest

from tests.support.documents.command_line import mistake_in, unknown_in


@pytest.mark.parametrize(
    "words",
    [
        "corectness",
        "lint --fixx",
        "lint --severity",
        "correctness --retries many",
        "history began --since",
        "run --determinism strickt -- true",
        "cache",
    ],
)
def test_a_command_line_that_the_parser_refuses_is_a_mistake(words: str) -> None:
    assert mistake_in(words.split()) is not None


def test_a_command_line_with_files_that_are_not_there_is_none() -> None:
    assert mistake_in(["lint", "nowhere", "--config", "nowhere.toml"]) is None
    assert mistake_in([]) is None


def test_inline_code_may_lack_arguments_but_not_name_what_is_not_there() -> None:
    assert unknown_in(["history", "began", "TEST", "…"]) is None
    assert unknown_in(["lint", "--fix"]) is None
    assert unknown_in(["diagnose", "rules", "--check", "FILE"]) is None
    assert "--fixx" in (unknown_in(["lint", "--fixx"]) or "")
    assert "linted" in (unknown_in(["linted"]) or "")
