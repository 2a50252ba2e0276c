# SPDX-License-Identifier: Apache-2.0
"""What may become a link of a page."""

import pytest

from ci_doctor.render.markup import is_plain_path


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("samples.jsonl", True),
        ("logs/A1/vllm-1.log", True),
        ("/tmp/a.log", False),
        ("../a.log", False),
        ("a b.log", False),
        ("a?x=1", False),
        ("javascript:alert(1)", False),
        ("", False),
    ],
)
def test_a_plain_path_lies_below_the_report_and_needs_no_escapes(path: str, plain: bool) -> None:
    assert is_plain_path(path) is plain
