# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.load.protocols.completions import expected_choices


@pytest.mark.parametrize(
    ("body", "choices"),
    [
        ({"prompt": "x"}, 1),
        ({"prompt": "x", "n": 3}, 3),
        ({"prompt": "x", "n": None}, 1),
        ({"prompt": ["x", "y"], "n": 2}, 4),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": [[1, 2], [3]]}, 2),
        ({"messages": [{"role": "user", "content": "x"}]}, 1),
        ({"prompt": "x", "prompt_embeds": ["…"]}, None),
        ({"prompt": "x", "n": "2"}, None),
        ({"input": "x"}, None),
    ],
)
def test_how_many_choices_an_answer_must_have(body: dict[str, Any], choices: int | None) -> None:
    assert expected_choices(body) == choices


def test_the_number_of_choices_is_unknown_without_the_request() -> None:
    assert expected_choices(None) is None
