# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness replay`."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from ci_doctor.commands.delivery import claim, deliver, write
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import output_options
from ci_doctor.correctness.report.alignment import rows_around, visible
from ci_doctor.correctness.report.differences import Pair
from ci_doctor.correctness.report.figures import row_facts
from ci_doctor.correctness.report.recorded import Recorded, choose_pair, read_request
from ci_doctor.correctness.report.replay_lines import (
    Block,
    Line,
    Mark,
    alignment,
    answers,
    beside,
    divergence_of,
    numbers,
    outputs_of,
    plain,
)
from ci_doctor.correctness.verdict.compare import explain
from ci_doctor.errors import UsageError
from ci_doctor.model.report import Report
from ci_doctor.model.table import text_table
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.layout import wrap
from ci_doctor.system.secrets.redaction import Redactor

_STYLES: dict[Mark, dict[str, Any]] = {
    Mark.PLAIN: {},
    Mark.DIM: {"dim": True},
    Mark.STRONG: {"bold": True},
    Mark.LEFT: {"fg": "red", "bold": True},
    Mark.RIGHT: {"fg": "green", "bold": True},
}


@click.command("replay")
@click.option(
    "--run", "run_directory", metavar="DIR", required=True, help="The report directory of a run."
)
@click.option("--request", metavar="ID", required=True, help="The request to print.")
@click.option(
    "--starts",
    metavar="A1,B1",
    help="Two starts, or one to compare its passes. [default: the most informative pair]",
)
@output_options
@legacy
def replay(
    invocation: Invocation,
    run_directory: str,
    request: str,
    starts: str | None,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
) -> int:
    """Print one request of a run: the answer of every start, and the difference. Starts no server.

    Exits with 0 once the request is printed.
    """
    names = _names(starts)
    recorded = read_request(Path(run_directory), request)
    pair = choose_pair(recorded, names)
    directory = invocation.report_directory
    if directory is not None and directory.absolute() == Path(run_directory).absolute():
        raise UsageError(
            "the run's own report would be overwritten", hint="name another --report-dir"
        )
    claim(directory)
    if recorded.unreadable:
        click.echo(
            f"warning: {recorded.unreadable} lines of the samples cannot be read, and are left out",
            err=True,
        )
    width = _width()
    blocks = _blocks(recorded, pair, width)
    report = _report(invocation, recorded, pair, blocks)
    if as_json:
        return deliver(report, as_json=True, directory=directory)
    redactor = Redactor.from_environment(os.environ)
    if directory is not None:
        write(redactor.report(report), directory)
    _show(wrap(report.summary, width), blocks, redactor)
    return 0


def _names(starts: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in starts.split(",")) if starts else ()
    if starts is not None and not 1 <= len(names) <= 2:
        raise UsageError(
            f"--starts {starts}: two starts can be compared", hint="such as --starts A1,B1"
        )
    return names


def _width() -> int:
    return min(shutil.get_terminal_size((80, 24)).columns, 120) if sys.stdout.isatty() else 80


def _blocks(recorded: Recorded, pair: Pair | None, width: int) -> tuple[Block, ...]:
    if pair is None:
        return (answers(recorded, width),)
    at = divergence_of(recorded, pair, width)
    same = pair.left == pair.right and pair.left is not None
    shown = (
        answers(recorded, width),
        None if same else alignment(pair, at, width),
        None if same else numbers(recorded, pair, at, width),
        beside(recorded, pair, width),
    )
    return tuple(block for block in shown if block is not None)


def _report(
    invocation: Invocation, recorded: Recorded, pair: Pair | None, blocks: Sequence[Block]
) -> Report:
    same = pair is None or (pair.left is not None and pair.left == pair.right)
    facts: dict[str, Any] = {
        "request": recorded.request,
        "kind": str(recorded.kind),
        "answers": {
            start.name: {str(number): sample.digest for number, sample in start.samples.items()}
            for start in recorded.starts
        },
    }
    if pair is not None and not same:
        facts |= _divergence_facts(recorded, pair)
    told = "; these two are the same" if pair is not None and same else ""
    return invocation.report(
        verdict=Verdict.PASS,
        exit_code=0,
        summary=f"request {visible(recorded.request)}: {recorded.kind}: {explain(recorded.kind)}{told}",
        tables=tuple(
            text_table(title=block.title, lines=tuple(plain(line) for line in block.lines))
            for block in blocks
        ),
        facts=facts,
    )


def _divergence_facts(recorded: Recorded, pair: Pair) -> dict[str, Any]:
    at = divergence_of(recorded, pair, 80)
    left, right = outputs_of(recorded, pair)
    rows = rows_around(left, right, at) if left is not None and right is not None else ()
    return {
        "starts": [pair.first, pair.second],
        "passes": [pair.number, pair.other or pair.number],
        "divergence": to_builtins(at),
        "logprobs": row_facts(rows),
    }


def _show(summary: Sequence[str], blocks: Sequence[Block], redactor: Redactor) -> None:
    """On stdout; click leaves the colours out where that is no terminal."""
    colour = None if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else False
    for text in summary:
        click.echo(click.style(redactor.without_values(text), bold=True), color=colour)
    for block in blocks:
        click.echo("\n" + click.style(block.title, bold=True), color=colour)
        for line in block.lines:
            click.echo(redactor.without_values(_painted(line)), color=colour)


def _painted(line: Line) -> str:
    return (
        "  " + "".join(click.style(piece.text, **_STYLES[piece.mark]) for piece in line)
    ).rstrip()
