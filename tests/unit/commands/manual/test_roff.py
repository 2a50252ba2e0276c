# SPDX-License-Identifier: Apache-2.0
"""Text as roff, read back by groff."""

import shutil
import subprocess

import pytest

from ci_doctor.commands.manual.roff import argument, escaped, prose

# What a formatter takes for a request, an escape, an accent, a dash or a quotation mark.
NASTY = [
    ".SH not a heading",
    "'br not a request",
    r"a \fBbackslash\fR, \n, \(em and C:\path\\",
    "--option -1 a-b",
    """"quotes", 'quotes' and `backticks`""",
    "~/.cache ^1 x*2 [a|b] $! %d #: @ {port} _",
    "… – é ≥ 日本",
    "  two spaces in front",
    "\\",
    ".",
    "",
    "...",
]


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_groff_shows_every_character_as_it_was() -> None:
    lines = [f"begin{number}|{text}" for number, text in enumerate(NASTY)]
    page = ".TH T 1\n.nf\n" + "\n".join(map(escaped, [*lines, *NASTY])) + "\n"

    ran = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", "-P-cbou"],
        input=page.encode(),
        capture_output=True,
        check=True,
    )

    shown = [line.removeprefix("       ") for line in ran.stdout.decode().splitlines()]
    assert ran.stderr == b""
    for text in [*lines, *filter(None, NASTY)]:
        assert text in shown


def test_the_input_is_ascii() -> None:
    assert escaped("é…") == r"\[u00E9]\[u2026]"


def test_a_dot_or_a_quote_at_the_start_of_a_line_is_text() -> None:
    assert escaped(".SH\n'br") == "\\&.SH\n\\(aqbr"


def test_backticks_become_bold() -> None:
    assert prose("Run `a -b`, then c.") == r"Run \fBa \-b\fR, then c."


def test_an_argument_holds_quotes() -> None:
    assert argument('a "b"') == r'"a \(dqb\(dq"'
