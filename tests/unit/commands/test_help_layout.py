# SPDX-License-Identifier: Apache-2.0
"""Help texts on terminals of several widths."""

import re

import click
import pytest

from ci_doctor.cli import root
from ci_doctor.commands.documented import HelpLayout
from docs.site.command_manuals import command_at, manuals

PATHS = [manual.words[1:] for manual in manuals(root)]


def help_text(words: tuple[str, ...], width: int) -> str:
    context = click.Context(root, info_name="ci-doctor", **root.context_settings)
    inner = command_at(context, words)
    inner.terminal_width = width
    return inner.get_help()


@pytest.mark.parametrize("width", [58, 78])
@pytest.mark.parametrize("words", PATHS, ids=" ".join)
def test_a_line_is_longer_than_the_terminal_only_if_it_is_one_word(
    words: tuple[str, ...], width: int
) -> None:
    long = [line for line in help_text(words, width).split("\n") if len(line) > width]

    # A word such as an option with its choices, or an argument in quotes, cannot be broken.
    words_of_long = [re.sub(r"'[^']*'|\[[^\]]*\]", "X", line.removesuffix(" \\")) for line in long]
    assert [line for line in words_of_long if len(line.split()) > 2] == []


def test_a_long_name_gets_a_line_of_its_own_and_pushes_nothing() -> None:
    layout = HelpLayout(width=78)
    layout.write_options([("--short", "Short."), ("--an-option-with-a-long-name NAME", "Long.")])

    assert layout.getvalue() == (
        "--short                 Short.\n"
        "--an-option-with-a-long-name NAME\n"
        "                        Long.\n"
    )


def test_on_a_narrow_terminal_each_explanation_stands_below_its_option() -> None:
    layout = HelpLayout(width=58)
    layout.write_options([("--x", "Short.")])

    assert layout.getvalue() == "--x\n    Short.\n"


def test_on_a_narrow_terminal_a_command_and_what_it_does_stay_on_one_line() -> None:
    layout = HelpLayout(width=58)
    layout.write_dl([("show", "Print every value."), ("schema", "Print a schema.")])

    assert layout.getvalue() == "show    Print every value.\nschema  Print a schema.\n"


def test_an_example_can_be_pasted_whatever_the_width() -> None:
    layout = HelpLayout(width=40)
    layout.write_examples({"ci-doctor wait --pid 1 --ready http://127.0.0.1:8000/health": "Wait."})

    assert layout.getvalue() == (
        "Example:\n"
        "  Wait.\n"
        "    ci-doctor wait --pid 1 --ready \\\n"
        "      http://127.0.0.1:8000/health\n"
    )


def test_a_list_of_commands_shows_whole_sentences() -> None:
    text = help_text(("correctness",), 78)

    assert "..." not in text.partition("Commands:")[2].partition("What is compared")[0]
    assert click.unstyle(text) == text
