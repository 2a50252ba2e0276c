# SPDX-License-Identifier: Apache-2.0
"""A rules file is tested before a job relies on it: each mistake by rule and line."""

from pathlib import Path

import pytest

from ci_doctor.diagnosis.rules_check import check_outcome
from ci_doctor.errors import ConfigError
from ci_doctor.model.verdict import Verdict

GOOD = """\
[[rule]]
id = "team/licence-server"
role = "cause"
class = "network"
literals = ["licence server"]
regex = 'licence server (?P<name>\\S+) does not answer'
explanation = "It does not answer."
match = ["licence server lic-7 does not answer after 30 s"]
no_match = ["licence server lic-7 answered"]
"""


def problems(text: str, tmp_path: Path) -> list[tuple[str, int | None]]:
    """The findings about a file with `text`: summary and line."""
    path = tmp_path / "rules.toml"
    path.write_text(text)
    outcome = check_outcome(path)
    expected = Verdict.FAILED if outcome.findings else Verdict.PASS
    assert outcome.verdict is expected
    return [(each.summary, each.evidence[0].line) for each in outcome.findings]


def test_a_file_whose_examples_hold_passes(tmp_path: Path) -> None:
    assert problems(GOOD, tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ("after 30 s", "", ""),
        ("lic-7 does not answer after", "lic-7 is slow after", "does not match the example"),
        ('literals = ["licence server"]', 'literals = ["other words"]', "none of the literals"),
        ("lic-7 answered", "lic-7 does not answer", "stands in `no_match`"),
        ("licence server (?P<name>", "(?=licence server )(?P<name>", "cannot be compiled"),
        ('literals = ["licence server"]', "literals = []", "no literals"),
        ('"network"', '"netwrok"', "netwrok"),
        ('"team/licence-server"', '"Team licence"', "family/what-happened"),
        ('explanation = "It does not answer."\n', "", "no explanation"),
        ("[[rule]]\n", '[[rule]]\nseverity = "high"\n', "severity"),
    ],
)
def test_a_mistake_is_named_with_the_line_of_its_rule(
    old: str, new: str, mistake: str, tmp_path: Path
) -> None:
    changed = GOOD.replace(old, new)
    assert changed != GOOD

    found = problems(f"{changed}\n\n{GOOD.replace('team/', 'other/')}", tmp_path)

    if not mistake:
        assert found == []
        return
    ((summary, line),) = found
    assert mistake in summary
    assert line in {2, 3}


def test_a_rule_that_stands_twice_is_named(tmp_path: Path) -> None:
    ((summary, line),) = problems(GOOD + GOOD, tmp_path)

    assert ("another rule has this id" in summary, line) == (True, 11)


@pytest.mark.parametrize("text", ["", "[rule]\nid = 1\n", "[[rules]]\nid = 'x/y'\n"])
def test_a_file_without_rules_fails(text: str, tmp_path: Path) -> None:
    assert problems(text, tmp_path)


def test_what_is_not_toml_is_named_with_its_line(tmp_path: Path) -> None:
    ((summary, line),) = problems(f"{GOOD}\n[[rule]\n", tmp_path)

    assert ("not TOML" in summary, line) == (True, 11)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml"):
        check_outcome(tmp_path / "gone.toml")
