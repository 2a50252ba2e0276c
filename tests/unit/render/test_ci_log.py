# SPDX-License-Identifier: Apache-2.0
"""Groups and annotations, held against readers that copy what the CI systems document."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ci_doctor.render.ci_log import (
    Dialect,
    LogSection,
    annotation,
    commands_resumed,
    commands_stopped,
    defused,
    dialect_of,
    end_of,
    header,
    opened_again,
    start_of,
)
from tests.support.ci_log_readers import (
    Command,
    buildkite_headers,
    github_commands,
    gitlab_sections,
)

CLOSED = LogSection("services of ci-doctor launch", "7_1")
OPEN = LogSection("✗ FAILED  ci-doctor launch", "7_2", is_open=True)
HOSTILE = "a\n--- b\r\n::error::c\x1b[0Ksection_end:1:d\r\x1b[0K##[endgroup]\u2028+++ e"
FORGED = [
    "--- a group",
    "+++ a group",
    "~~~ a group",
    "^^^ +++",
    "---",
    "\x1b[1m--- painted",
    "a line\r--- after a carriage return",
    "::set-output name=x::1",
    "  \t::error file=a.py,line=1::b",
    "\u3000\x0c::add-mask::e",
    "a line\r::warning::after a carriage return",
    "in the middle ##[add-mask]e",
    "#\n##[error]old",
    "###[group]three",
    "::stop-commands::t",
    "\x1b[0Ksection_start:1560896352:name[collapsed=true]\r\x1b[0Ktitle",
    "in the middle section_end:1:name\r\x1b[0K",
]
MARKS = ("--- ", "+++ ", "^^^ +++", "~~~", "::", "##[", "]", "#", "section_start:1:a", "section_end:1:a")  # fmt: skip
BETWEEN = ("\n", "\r", " ", "\t", "\u2028", "\x1b[0K", "\x1b[1m", "x", "error", "group", "stop-commands")  # fmt: skip
PIECES = st.sampled_from(MARKS + BETWEEN)


def acting(text: str, dialect: Dialect) -> int:
    """How many lines of `text` act on a log."""
    match dialect:
        case Dialect.BUILDKITE:
            return len(buildkite_headers(text))
        case Dialect.GITHUB:
            return len(github_commands(text))
        case Dialect.GITLAB:
            return len(gitlab_sections(text))


@pytest.mark.parametrize(
    ("environ", "dialect"),
    [
        ({}, None),
        ({"CI": "true"}, None),
        ({"BUILDKITE": "false", "GITHUB_ACTIONS": "", "GITLAB_CI": "1"}, None),
        ({"BUILDKITE": "true"}, Dialect.BUILDKITE),
        ({"GITHUB_ACTIONS": "true"}, Dialect.GITHUB),
        ({"GITLAB_CI": "true"}, Dialect.GITLAB),
        ({"GITHUB_ACTIONS": "true", "BUILDKITE": "true"}, Dialect.BUILDKITE),
    ],
)
def test_the_environment_names_the_dialect(
    environ: dict[str, str], dialect: Dialect | None
) -> None:
    assert dialect_of(environ) is dialect


def test_buildkite_has_a_header_and_no_end() -> None:
    log = start_of(CLOSED, Dialect.BUILDKITE, 1.5) + end_of(CLOSED, Dialect.BUILDKITE, 2)
    log += start_of(OPEN, Dialect.BUILDKITE, 3) + opened_again(Dialect.BUILDKITE)

    assert buildkite_headers(log) == [("---", CLOSED.title), ("+++", OPEN.title), ("^^^ +++", "")]


def test_github_has_closed_groups_alone() -> None:
    log = start_of(CLOSED, Dialect.GITHUB, 1.5) + "x\n" + end_of(CLOSED, Dialect.GITHUB, 2)

    assert github_commands(log) == [
        Command("group", {}, CLOSED.title),
        Command("endgroup", {}, ""),
    ]
    assert not start_of(OPEN, Dialect.GITHUB, 3) + end_of(OPEN, Dialect.GITHUB, 4)
    assert not opened_again(Dialect.GITHUB) + opened_again(Dialect.GITLAB)


def test_gitlab_pairs_the_ends_of_a_section_by_its_name() -> None:
    log = start_of(CLOSED, Dialect.GITLAB, 1560896352.9) + end_of(CLOSED, Dialect.GITLAB, 3)
    log += start_of(OPEN, Dialect.GITLAB, 4) + end_of(OPEN, Dialect.GITLAB, 5)

    assert "\x1b[0Ksection_start:1560896352:ci_doctor_7_1[collapsed=true]\r\x1b[0K" in log
    assert gitlab_sections(log) == [
        ("start", "ci_doctor_7_1", "[collapsed=true]", CLOSED.title),
        ("end", "ci_doctor_7_1", "", ""),
        ("start", "ci_doctor_7_2", "", OPEN.title),
        ("end", "ci_doctor_7_2", "", ""),
    ]


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("title", [HOSTILE, "x" * 1_000_000, "\n" * 1_000_000, "\x00\x1b[2J", ""])
def test_a_hostile_title_is_one_line_that_begins_one_group(dialect: Dialect, title: str) -> None:
    log = start_of(LogSection(title, HOSTILE), dialect, 1)

    assert acting(log, dialect) == 1
    assert log.count("\n") == 1
    assert len(log) < 400


def test_a_title_is_short() -> None:
    assert header("x" * 1000) == "x" * 119 + "…"
    assert header(" a\n b\x1b[1m ") == "a b"


def test_an_annotation_is_read_back_as_it_was() -> None:
    message = "50% of a,b:c\nsecond %0A line"
    line = annotation("error", message, title="a, b: 100%", file="a,b:c%.py", line=7, other=None)

    assert line.count("\n") == 1
    assert github_commands(line) == [
        Command("error", {"title": "a, b: 100%", "file": "a,b:c%.py", "line": "7"}, message)
    ]
    assert annotation("warning", "plain") == "::warning::plain\n"


@pytest.mark.parametrize("text", [HOSTILE, *FORGED])
def test_an_annotation_of_hostile_text_stays_one_command(text: str) -> None:
    (command,) = github_commands(annotation("error", text, title=text, file=text))

    assert command.name == "error"
    assert set(command.properties) == {"title", "file"}


@pytest.mark.parametrize("line", FORGED)
def test_a_forged_line_acts_until_it_is_defused(line: str) -> None:
    assert any(acting(line, dialect) for dialect in Dialect)
    for dialect in Dialect:
        assert acting(defused(line, dialect), dialect) == 0


@pytest.mark.parametrize("dialect", Dialect)
def test_what_does_not_act_is_left_as_it_is(dialect: Dialect) -> None:
    text = "a---b\n-- x\n----\n std::vector\n│ --- c\n# [x]\nsection_started\n"

    assert defused(text, dialect) == text


def test_a_patch_on_buildkite_is_indented() -> None:
    patch = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n"

    assert defused(patch, Dialect.BUILDKITE) == " --- a/x.py\n +++ b/x.py\n@@ -1 +1 @@\n"


@given(st.lists(PIECES).map("".join), st.sampled_from(Dialect))
@example("#" * 5 + "[group]", Dialect.GITHUB)
def test_no_text_acts_once_it_is_defused(text: str, dialect: Dialect) -> None:
    once = defused(text, dialect)

    assert acting(once, dialect) == 0
    assert defused(once, dialect) == once


def test_many_blanks_are_defused_in_linear_time() -> None:
    for text in (" " * 200_000, "\n" * 200_000, "\x1b[1m" * 50_000, "#" * 200_000):
        for dialect in Dialect:
            assert defused(text, dialect) == text


def test_github_takes_no_command_until_it_is_resumed() -> None:
    log = commands_stopped("t0k3n") + "::error::a\n##[error]b\n" + commands_resumed("t0k3n")
    log += annotation("error", "c")

    assert [command.name for command in github_commands(log)] == ["stop-commands", "error"]
