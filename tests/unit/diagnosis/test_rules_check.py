# SPDX-License-Identifier: Apache-2.0
"""A rules file is tested before a job relies on it: each mistake by rule and line."""

from pathlib import Path

import pytest

from ci_doctor.diagnosis.rules_check import check_outcome
from ci_doctor.errors import ConfigError
from ci_doctor.model.finding import Severity
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.verdict import Verdict

GOOD = """\
[[rule]]
id = "team/licence-server"
role = "cause"
class = "network"
literals = ["licence server"]
regex = 'licence server (?P<name>\\S+) does not answer'
explanation = "It does not answer."
remedy = "Ask for it."
match = ["licence server lic-7 does not answer after 30 s"]
no_match = ["licence server lic-7 answered"]
"""


def problems(text: str, tmp_path: Path) -> list[tuple[str, int | None]]:
    """The findings about a file with `text`: summary and line."""
    path = tmp_path / "rules.toml"
    path.write_text(text)
    outcome = check_outcome(path)
    mistakes = [each for each in outcome.findings if each.severity is Severity.ERROR]
    expected = Verdict.FAILED if mistakes else Verdict.PASS
    assert outcome.verdict is expected
    return [(each.summary, each.evidence[0].line) for each in mistakes]


def test_a_file_whose_examples_hold_passes(tmp_path: Path) -> None:
    assert problems(GOOD, tmp_path) == []


def test_a_mistake_is_named_with_the_line_of_its_rule(tmp_path: Path) -> None:
    second = GOOD.replace("team/", "other/").replace("lic-7 answered", "lic-7 does not answer")

    ((summary, line),) = problems(f"{GOOD}\n{second}", tmp_path)

    assert "no_match example" in summary
    assert (summary.partition(":")[0], line) == ("other/licence-server", 13)


def test_every_rule_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    first = GOOD.replace('"network"', '"netwrok"')
    second = GOOD.replace("[[rule]]\n", '[[rule]]\nseverity = "high"\n')

    found = problems(first + second, tmp_path)

    assert ["netwrok" in found[0][0], "severity" in found[1][0]] == [True, True]
    assert [line for _, line in found] == [2, 13]


@pytest.mark.parametrize("id_", ["python/traceback", "generic/last-output"])
def test_a_rule_of_ours_keeps_its_id(tmp_path: Path, id_: str) -> None:
    text = GOOD.replace("team/licence-server", id_)

    assert "another rule has this id" in problems(text, tmp_path)[0][0]


def test_a_rule_that_stands_twice_is_named(tmp_path: Path) -> None:
    found = problems(GOOD + GOOD, tmp_path)

    assert {line for _, line in found} == {12}
    assert all("another rule has this id" in summary for summary, _ in found)


@pytest.mark.parametrize("text", ["", "[rule]\nid = 1\n", "[[rules]]\nid = 'x/y'\n"])
def test_a_file_without_rules_fails(text: str, tmp_path: Path) -> None:
    assert problems(text, tmp_path)


def test_what_is_not_toml_is_named_with_its_line(tmp_path: Path) -> None:
    ((summary, line),) = problems(f"{GOOD}\n[[rule]\n", tmp_path)

    assert ("not TOML" in summary, line) == (True, 12)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml"):
        check_outcome(tmp_path / "gone.toml")


OVERLAPPING = """
[[rule]]
id = "team/widget"
role = "cause"
class = "configuration"
{extra}
literals = ["widget"]
regex = '^widget: '
explanation = "The widget is wrong."
remedy = "Mend the widget."
match = ["widget: CUDA out of memory. Tried to allocate 2.00 GiB"]
"""


def check(tmp_path: Path, extra: str) -> Outcome:
    path = tmp_path / "rules.toml"
    path.write_text(OVERLAPPING.format(extra=extra))
    return check_outcome(path)


def test_rules_that_match_an_example_are_named_and_those_that_count(tmp_path: Path) -> None:
    outcome = check(tmp_path, "weight = 50")

    assert outcome.verdict is Verdict.PASS
    assert any("gpu/out-of-memory" in str(each) for each in outcome.tables[0].rows)
    assert "gpu/out-of-memory matches it too and counts" in outcome.findings[0].summary


@pytest.mark.parametrize(
    "extra",
    [
        "weight = 100",
        'weight = 50\ninstead_of = ["gpu/out-of-memory"]',
        'weight = 50\nyields_to = {"gpu/out-of-memory" = "the memory says more than the widget"}',
    ],
)
def test_a_rule_that_has_decided_about_the_others_has_no_finding(
    tmp_path: Path, extra: str
) -> None:
    assert check(tmp_path, extra).findings == ()
