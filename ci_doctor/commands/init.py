# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor init`."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands.documented import GENERAL, command, option, output_options, pass_session
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.scaffold.arms import ProposedArms, ScaffoldFacts
    from ci_doctor.scaffold.propose import Proposal

_LINES = 45
_MOST_CHOICES = 5


@command(
    "init",
    examples={
        "ci-doctor init": "Look at what is proposed, and answer what is asked.",
        'ci-doctor init --dry-run | git -C "$(git rev-parse --show-toplevel)" apply': "Read the diff, and apply it yourself.",
    },
    exits={
        0: "written, or proposed; also if the answer is no",
        2: "nothing is written: a file cannot be, or ci-doctor.toml is wrong",
    },
)
@option("--yes", group=GENERAL, is_flag=True, help="Write the files; ask nothing.")
@option("--dry-run", group=GENERAL, is_flag=True, help="Print the files as a diff; write nothing.")
@output_options
@pass_session
def init(session: Session, /, *, yes: bool, dry_run: bool) -> int:
    """Look at this repository, and propose a configuration, requests, a pipeline step and a hook.

    It reads scripts, pipelines, images and source, and runs nothing of them. On a terminal it shows a
    diff and asks before it writes. Without a terminal it writes only with --yes. No file that exists
    is changed.
    """
    session.claim()
    from ci_doctor.scaffold.arms import choose_arms
    from ci_doctor.scaffold.look import look, read_files

    asks = not (yes or dry_run or session.as_json) and _is_terminal()
    files = read_files(Path.cwd())
    facts = look(files)
    arms = _chosen(facts) if asks else choose_arms(facts.servers)
    proposal = _proposed(files.directory, facts, arms)
    if dry_run or not (yes or asks):
        return _shown(session, proposal, is_dry_run=dry_run)
    return _written(session, proposal, asks=asks)


def _is_terminal() -> bool:
    """Whether a person can be asked."""
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


def _width() -> int:
    return shutil.get_terminal_size().columns


def _proposed(directory: Path, facts: "ScaffoldFacts", arms: "ProposedArms | None") -> "Proposal":
    from ci_doctor.config.decoding import read_exit_codes
    from ci_doctor.config.loading import load_config
    from ci_doctor.configuration import configuration_schema
    from ci_doctor.scaffold.look import taken_names
    from ci_doctor.scaffold.origin import tool_origin
    from ci_doctor.scaffold.propose import ProposalRequest, propose

    codes, _ = read_exit_codes(load_config(None, directory), os.environ)
    schema = json.dumps(configuration_schema(), ensure_ascii=False, indent=2)
    request = ProposalRequest(
        facts=facts, arms=arms, schema=f"{schema}\n", origin=tool_origin(), codes=codes
    )
    taken = taken_names(Path(facts.root), propose(request))
    from msgspec.structs import replace

    return propose(replace(request, taken=taken))


def _chosen(facts: "ScaffoldFacts") -> "ProposedArms | None":
    """The arms that a person chooses, if there are several servers; else the proposed ones."""
    from ci_doctor.scaffold.arms import choose_arms, chosen_arms, comparable
    from ci_doctor.scaffold.propose import command_line

    offered = comparable(facts.servers)[:_MOST_CHOICES]
    proposed = choose_arms(facts.servers)
    # Two that differ by a connector alone are what a cache's repository wants.
    is_clear = proposed is not None and proposed.candidate.connector is not None
    if len(offered) < 2 or is_clear or facts.existing.config is not None:
        return proposed
    say("Servers of this repository:\n")
    for at, server in enumerate(offered, start=1):
        say(f"  {at}. {command_line(server, _width() - 6)}\n     {server.origin}\n")
    usual = [
        1 + offered.index(each)
        for each in ((proposed.baseline, proposed.candidate) if proposed is not None else ())
        if each in offered
    ]
    first, second = usual if len(usual) == 2 else (1, 1)
    one = _asked("Baseline", len(offered), first)
    second = second if one == first else one
    other = _asked("Candidate (the same one: against itself)", len(offered), second)
    return chosen_arms(facts.servers, offered[one - 1], offered[other - 1])


def _asked(question: str, most: int, default: int) -> int:
    """The number that is typed, from 1 to `most`."""

    def number(text: str) -> int:
        if not text.strip().isdecimal() or not 1 <= int(text) <= most:
            raise click.UsageError(f"write a number from 1 to {most}, or Ctrl-C to leave")
        return int(text)

    try:
        answer: int = click.prompt(question, value_proc=number, default=default, err=True)
    except click.Abort:
        say("\n")  # the cursor stands behind the question
        raise
    return answer


def _shown(session: Session, proposal: "Proposal", *, is_dry_run: bool) -> int:
    """Print the diff; nothing is written."""
    from ci_doctor.render.formatting import printable
    from ci_doctor.scaffold.propose import outcome_of, short_diff, whole_diff

    why = "this is a dry run" if is_dry_run else "there is no terminal to ask on; --yes writes them"
    outcome = outcome_of(proposal, why)
    if not session.as_json:
        session.show(outcome)
    files = proposal.files
    is_read_here = sys.stdout is not None and sys.stdout.isatty()
    # Elsewhere it is whole, so that `git apply` takes it.
    diff = printable(short_diff(files, _LINES, _width())) if is_read_here else whole_diff(files)
    return session.finish(outcome, on_stdout=True, text=diff)


def _written(session: Session, proposal: "Proposal", *, asks: bool) -> int:

    from ci_doctor.render.formatting import printable
    from ci_doctor.scaffold.look import write_files
    from ci_doctor.scaffold.propose import outcome_of, short_diff

    files = proposal.files
    if files and not session.as_json:
        diff = session.redactor.without_values(short_diff(files, _LINES, _width()))
        say(f"{printable(diff)}\n")
    count = "this file" if len(files) == 1 else f"these {len(files)} files"
    if files and asks and not click.confirm(f"Write {count}?", default=True, err=True):
        return session.finish(outcome_of(proposal, "you said no"), on_stdout=True)
    write_files(Path(proposal.request.facts.root), files)
    return session.finish(outcome_of(proposal), on_stdout=True)
