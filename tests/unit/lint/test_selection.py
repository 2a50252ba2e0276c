# SPDX-License-Identifier: Apache-2.0
"""What `[lint]` and the baseline file may name."""

import pytest

from ci_doctor.errors import ConfigError
from ci_doctor.lint.selection import (
    BaselineEntry,
    LintBaseline,
    LintSettings,
    PathSettings,
    check_rule_names,
    decode_baseline,
    encode_baseline,
)
from ci_doctor.lint.source_files import started_programs
from ci_doctor.model.finding import Severity

RULES = ("shell/bad-word", "gate/slow-gate")


@pytest.mark.parametrize(
    "settings",
    [
        LintSettings(ignore=("shell/bad-wort",)),
        LintSettings(severity={"shell/bad-wort": Severity.NOTE}),
        LintSettings(paths=(PathSettings(match=("*",), ignore=("shell/bad-wort",)),)),
    ],
)
def test_a_mistyped_rule_is_an_error_with_the_near_name(settings: LintSettings) -> None:
    with pytest.raises(ConfigError) as raised:
        check_rule_names(settings, lambda: RULES, "ci-doctor.toml:3")

    assert raised.value.message == "ci-doctor.toml:3: [lint]: no rule is called `shell/bad-wort`"
    assert raised.value.hint == "did you mean `shell/bad-word`?"


def test_names_and_patterns_of_rules_are_fine() -> None:
    settings = LintSettings(
        ignore=("shell/*",), paths=(PathSettings(match=("x/**",), ignore=("*", "gate/slow-gate")),)
    )

    check_rule_names(settings, lambda: RULES, "ci-doctor.toml")


# The baseline file: what it holds, and what is no baseline.


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


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("python3 a/b.py --x 1\ntrue\n", ("a", "b.py")),
        ("python -u b.py \\\n  --x 1; true", ("b.py",)),
        ("  - command: python3.12 ./b.py && true", ("b.py",)),
    ],
)
def test_a_program_is_known_by_its_path(text: str, parts: tuple[str, ...]) -> None:
    assert list(started_programs(text)) == [parts]


@pytest.mark.parametrize("text", ["# python3 a.py", "python3 -m a.b", "ipython3 notes.txt"])
def test_comments_and_modules_are_none(text: str) -> None:
    assert list(started_programs(text)) == []
