# SPDX-License-Identifier: Apache-2.0
"""Which remedies are sentences, and which are commands to paste."""

import pytest

from ci_doctor.render.remedies import is_sentence


@pytest.mark.parametrize(
    ("remedy", "sentence"),
    [
        ("Set temperature to 0.", True),
        ("run `ruff check .` first", True),
        ("ruff check .", False),
        ("ci-doctor run --resume report", False),
    ],
)
def test_prose_quotes_its_commands_or_ends_with_a_full_stop(remedy: str, sentence: bool) -> None:
    assert is_sentence(remedy) is sentence
