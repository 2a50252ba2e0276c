# SPDX-License-Identifier: Apache-2.0
"""Reads the terminal: how a help text is laid out. Cheap to import."""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Final

import click

# A term that is longer gets a line of its own, and pushes nothing to the right.
_TERM: Final = 22
_GAP: Final = 2
# On a narrower terminal each explanation stands below its option.
_NARROW: Final = 70


class HelpLayout(click.HelpFormatter):
    """click's, with terms of one width in all sections, and headings in bold on a terminal."""

    def write_heading(self, heading: str) -> None:
        """Write the heading of a section."""
        self.write(f"{'':>{self.current_indent}}{_bold(f'{heading}:')}\n")

    def write_dl(
        self,
        rows: Iterable[tuple[str, str]],
        col_max: int = _TERM,
        col_spacing: int = _GAP,
    ) -> None:
        """Write terms and what they mean."""
        listed = list(rows)
        widest = max((len(term) for term, _ in listed), default=0)
        self._write_terms(listed, min(widest, col_max) + col_spacing)

    def write_options(self, rows: Iterable[tuple[str, str]]) -> None:
        """Write options: in every section their explanations begin in the same column.

        On a narrow terminal they stand below, because options are longer than names of commands.
        """
        column = 2 * _GAP if self.width < _NARROW else _TERM + _GAP
        self._write_terms(list(rows), column)

    def write_examples(self, examples: Mapping[str, str]) -> None:
        """Write command lines, each below the sentence that says what it does."""
        from ci_doctor.model.shell_line import broken_line

        with self.section("Examples" if len(examples) > 1 else "Example"):
            for line, sentence in examples.items():
                self.write_text(sentence)
                with self.indentation():
                    for each in line.split("\n"):
                        self._write_pieces(broken_line(each, self.width - self.current_indent))

    def _write_pieces(self, pieces: list[str]) -> None:
        for piece in pieces:
            self.write(f"{'':>{self.current_indent}}{piece}\n")

    def _write_terms(self, rows: list[tuple[str, str]], column: int) -> None:
        margin = " " * self.current_indent
        for term, meaning in rows:
            lines = _wrapped(meaning, self.width - self.current_indent - column)
            is_beside = lines and len(term) <= column - _GAP
            first = f"{term:<{column}}{lines.pop(0)}" if is_beside else term
            self.write(f"{margin}{first}\n")
            for line in lines:
                self.write(f"{margin}{'':>{column}}{line}\n")


def _wrapped(text: str, width: int) -> list[str]:
    return click.wrap_text(text, max(width, 10), preserve_paragraphs=True).splitlines()


def _bold(text: str) -> str:
    """`text` in bold if a terminal may show it; click.echo leaves colours out of all other streams."""
    streams = (sys.stdout, sys.stderr)
    is_shown = any(stream is not None and stream.isatty() for stream in streams)
    # As for reports: session/delivery.py.
    knows_none = os.environ.get("TERM", "dumb") in {"", "dumb"}
    if not is_shown or knows_none or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, bold=True)
