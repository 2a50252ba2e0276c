# SPDX-License-Identifier: Apache-2.0
"""Which remedies are sentences, and which are commands to paste."""

import pytest

from ci_doctor.model.finding import Finding, RemedyKind, Severity, ShellCommand
from ci_doctor.model.rule import Rule
from ci_doctor.render.remedies import is_advice, is_sentence

RULE = Rule(id="room/rule", severity=Severity.NOTE, meaning="It happened.", remedy="Mend it.")


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


def test_advice_is_never_shown_as_a_command() -> None:
    prose = "whatever is not the change under test: give both arms the same"
    finding = RULE.finding("it happened", remedy=prose)
    assert (finding.remedy, finding.remedy_kind) == (prose, RemedyKind.ADVICE)
    assert is_advice(finding)


def test_a_command_is_one_because_its_maker_says_so() -> None:
    finding = RULE.finding("it happened", remedy=ShellCommand("git fetch --tags"))
    assert (finding.remedy, finding.remedy_kind) == ("git fetch --tags", RemedyKind.COMMAND)
    assert not is_advice(finding)


def test_a_finding_of_an_earlier_version_is_read_by_its_form() -> None:
    for remedy, advice in (("Mend it.", True), ("git fetch --tags", False)):
        old = Finding(rule="r/r", severity=Severity.NOTE, summary="it happened", remedy=remedy)
        assert is_advice(old) is advice


def test_without_a_remedy_there_is_no_kind() -> None:
    assert RULE.finding("it happened").remedy_kind is None
