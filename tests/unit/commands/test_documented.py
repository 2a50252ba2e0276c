# SPDX-License-Identifier: Apache-2.0
"""The documentation that commands and options carry."""

import re
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from ci_doctor.checks.all_checks import all_checks
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.cli import root
from ci_doctor.commands.documented import GENERAL, OPTIONS, REPORT, HelpLayout, command, option
from ci_doctor.configuration import SETTINGS
from ci_doctor.explanation import explain
from ci_doctor.model.exit_code import ExitCode
from docs.site.command_manuals import CommandManual, OptionManual, command_at, manuals
from tests.support.example_lines import own_words, parsed


def help_text(words: tuple[str, ...], width: int) -> str:
    context = click.Context(root, info_name="ci-doctor", **root.context_settings)
    inner = command_at(context, words)
    inner.terminal_width = width
    return inner.get_help()


@pytest.mark.parametrize("manual", list(manuals(root)), ids=lambda each: each.page)
def test_a_line_is_longer_than_the_terminal_only_if_it_is_one_word_or_to_be_copied(
    manual: CommandManual,
) -> None:
    copied = {line.strip() for each in manual.examples for line in each.split("\n")}
    text = help_text(manual.words[1:], 78)
    long = [line for line in text.split("\n") if len(line) > 78 and line.strip() not in copied]

    # A word such as an option with its choices cannot be broken.
    words_of_long = [re.sub(r"\[[^\]]*\]", "X", line) for line in long]
    assert [line for line in words_of_long if len(line.split()) > 2] == []


def test_a_long_name_gets_a_line_of_its_own_and_pushes_nothing() -> None:
    layout = HelpLayout(width=78)
    layout.write_options([("--short", "Short."), ("--an-option-with-a-long-name NAME", "Long.")])

    assert layout.getvalue() == (
        "--short                 Short.\n"
        "--an-option-with-a-long-name NAME\n"
        "                        Long.\n"
    )


def test_an_example_can_be_pasted_whatever_the_width() -> None:
    layout = HelpLayout(width=40)
    line = "ci-doctor wait --pid 1 --ready http://127.0.0.1:8000/health"
    layout.write_examples({line: "Wait."})

    assert layout.getvalue() == f"Example:\n  Wait.\n    {line}\n"


def test_a_list_of_commands_shows_whole_sentences() -> None:
    text = help_text(("correctness",), 78)

    assert "..." not in text.partition("Commands:")[2].partition("What is compared")[0]
    assert click.unstyle(text) == text


MANUALS = list(manuals(root))
EXAMPLES = [line for manual in MANUALS for line in manual.examples]
# `run` and a shell say it with these if a command cannot be run.
OF_THE_SHELL = {126, 127}
MOST_WITHOUT_A_HEADING = 6


def options_of(manual: CommandManual) -> list[tuple[str, OptionManual]]:
    return [(group.heading, each) for group in manual.options for each in group.options]


@pytest.mark.parametrize("manual", MANUALS, ids=lambda each: each.page)
def test_every_command_has_an_example_of_itself(manual: CommandManual) -> None:
    assert manual.examples
    if len(manual.words) > 1:
        lines = [["ci-doctor", *own_words(line)] for line in manual.examples]
        # The example of a group is one of a command below it.
        assert all(words[: len(manual.words)] == list(manual.words) for words in lines)


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_example_is_a_command_line_of_its_command(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.log").touch()  # a log must be there

    parsed(own_words(line))


@pytest.mark.parametrize(
    "line",
    [
        "ci-doctor wait --pid 1 --ready tcp://127.0.0.1:1 --timout 3s",
        "ci-doctor wait --pid one --ready tcp://127.0.0.1:1",
        "ci-doctor cache restore --trust nobody",
        "ci-doctor compat .",
    ],
)
def test_an_example_that_has_rotted_is_noticed(line: str) -> None:
    with pytest.raises(click.UsageError):
        parsed(own_words(line))


def test_the_words_that_examples_explain_are_explained() -> None:
    (manual,) = (each for each in MANUALS if each.page == "ci-doctor-explain")
    for line in manual.examples:
        explain(own_words(line)[-1])  # raises UsageError


def test_the_checks_that_examples_name_are_checks() -> None:
    areas = {check.area for check in all_checks(DoctorSettings())}
    (manual,) = (each for each in MANUALS if each.page == "ci-doctor-doctor")
    for line in manual.examples:
        assert set(parsed(own_words(line))["checks"]) <= areas


def test_an_example_with_a_wrong_duration_is_noticed() -> None:
    with pytest.raises(ValueError, match="soon"):
        parsed(own_words("ci-doctor wait --pid 1 --ready tcp://127.0.0.1:1 --timeout soon"))


@pytest.mark.parametrize("manual", MANUALS, ids=lambda each: each.page)
def test_many_options_stand_below_headings(manual: CommandManual) -> None:
    without = [each for heading, each in options_of(manual) if heading == OPTIONS]

    assert len(without) <= MOST_WITHOUT_A_HEADING


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ("--json", REPORT),
        ("--report-dir", REPORT),
        ("--junit", REPORT),
        ("--sarif", REPORT),
        ("--config", GENERAL),
        ("--dry-run", GENERAL),
        ("--help", GENERAL),
    ],
)
def test_a_common_option_stands_below_one_heading_in_every_command(name: str, heading: str) -> None:
    places = {
        place for manual in MANUALS for place, each in options_of(manual) if name in each.names
    }

    assert places == {heading}


def test_the_common_headings_stand_last() -> None:
    for manual in MANUALS:
        headings = [group.heading for group in manual.options]
        last = [each for each in headings if each in {REPORT, GENERAL}]
        assert headings[len(headings) - len(last) :] == last, manual.page


def test_every_exit_code_that_a_command_names_is_one_of_ours() -> None:
    named = {code for manual in MANUALS for code in manual.own_exits}

    assert named <= {*map(int, ExitCode), *OF_THE_SHELL}


def with_defaults() -> list[tuple[str, OptionManual, Any]]:
    """The options whose key has a number or a text as its default, and says what the default is."""
    found = []
    for manual in MANUALS:
        for _, each in options_of(manual):
            if each.key is None or each.default is None or manual.section is None:
                continue
            fields = {
                field.name: field for field in msgspec.structs.fields(SETTINGS[manual.section])
            }
            default = fields[each.key.rpartition(" ")[2]].default
            if isinstance(default, str | int | float) and not isinstance(default, bool):
                found.append((f"{manual.page} {each.names[-1]}", each, default))
    return found


def test_a_default_in_a_help_text_is_that_of_the_settings() -> None:
    listed = with_defaults()

    assert len(listed) > 20
    wrong = []
    for name, each, default in listed:
        text = str(getattr(default, "value", default))
        if text not in (each.default or ""):
            wrong.append((name, each.default, text))
    assert wrong == []


class TestOptions:
    @pytest.mark.parametrize(
        ("kind", "shown"),
        [
            (click.IntRange(min=1), "--x N  How many. [default: 3]"),
            (click.IntRange(min=10), "--x N  How many. [default: 3; at least 10]"),
            (click.FloatRange(min=0, max=1), "--x NUMBER  How many. [default: 3; between 0 and 1]"),
            (click.INT, "--x N  How many. [default: 3]"),
        ],
    )
    def test_a_number_has_a_short_word_and_one_pair_of_brackets(
        self, kind: click.ParamType[Any], shown: str
    ) -> None:
        @command("x", examples={})
        @option("--x", type=kind, help="How many. [default: 3]")
        def run(x: int) -> None:
            """Do it."""

        (parameter,) = (each for each in run.params if isinstance(each, click.Option))
        record = parameter.get_help_record(click.Context(run))
        assert record is not None
        assert "  ".join(record) == shown

    def test_an_option_of_clicks_own_is_shown_too(self) -> None:
        @command("x", examples={"ci-doctor x": "Do it."}, exits={1: "not done"})
        @click.option("--plain", is_flag=True, help="As click has it.")
        def run(plain: bool) -> None:
            """Do it."""

        text = run.get_help(click.Context(run))
        assert "Options:\n  --plain " in text
        assert "Example:\n  Do it.\n    ci-doctor x\n" in text
        assert text.endswith("Exit codes:\n  1  not done")
