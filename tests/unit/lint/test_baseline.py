# SPDX-License-Identifier: Apache-2.0
"""The baseline file: what it holds, and what is no baseline."""

import pytest

from ci_doctor.errors import ConfigError
from ci_doctor.lint.baseline import BaselineEntry, LintBaseline, decode_baseline, encode_baseline


def test_a_baseline_has_a_line_for_each_entry_and_comes_back_as_it_was() -> None:
    entries = [
        BaselineEntry(rule="shell/x", file=f"{name}.sh", excerpt="00ff", count=2) for name in "abc"
    ]
    baseline = LintBaseline(entries=tuple(entries))

    content = encode_baseline(baseline)

    assert len(content.splitlines()) == 5
    assert decode_baseline(content, "b.json") == baseline
    assert decode_baseline(encode_baseline(LintBaseline()), "b.json") == LintBaseline()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"<<<<<<< ours", b'{"version":2,"entries":[]}', b'{"x":1}']
)
def test_what_is_no_baseline_is_a_configuration_error(content: bytes) -> None:
    with pytest.raises(ConfigError, match=r"b\.json"):
        decode_baseline(content, "b.json")
