# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor man`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import OPTIONS, command, option
from ci_doctor.commands.options import dry_run_option, output_options, pass_session
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.commands.manual.command_manual import CommandManual
    from ci_doctor.model.outcome import Outcome


@command(
    "man",
    examples={
        "ci-doctor man correctness": "Read the page of a command.",
        "ci-doctor man --directory ~/.local/share/man/man1": "Write all pages, so that `man ci-doctor` shows them.",
        "ci-doctor man cache restore > ci-doctor-cache-restore.1": "Write one page to a file.",
    },
)
@click.argument("words", nargs=-1, metavar="[COMMAND]...", shell_complete=values.commands)
@option(
    "--directory",
    group=OPTIONS,
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the pages of COMMAND and of all below it to this directory.",
)
@dry_run_option
@output_options
@pass_session
def man(
    session: Session, /, *, words: tuple[str, ...], directory: Path | None, dry_run: bool
) -> int:
    """Show the manual page of COMMAND, or write the pages to a directory.

    Without COMMAND it is the page of ci-doctor itself. On a terminal man(1) shows the page;
    otherwise it is printed as roff. The pages are made from the commands, so they always fit this
    version.
    """
    session.claim()
    if dry_run and directory is None:
        raise UsageError("--dry-run has nothing to leave out", hint="it goes with --directory DIR")
    context = click.get_current_context()
    chosen = _chosen(context.find_root().command, words)
    if directory is None:
        return _show(session, context, chosen[0])
    return session.finish(_written(chosen, directory, dry_run=dry_run), on_stdout=True)


def _chosen(root: click.Command, words: tuple[str, ...]) -> "list[CommandManual]":
    """The named command, and those below it. Raises UsageError for one that there is not."""
    from ci_doctor.commands.manual.reading import manuals
    from ci_doctor.model.suggestion import did_you_mean

    assert isinstance(root, click.Group)  # noqa: S101 - cli.root
    try:
        return list(manuals(root, words))
    except KeyError:
        known = list(manuals(root))
    # `ci-doctor-cache-restore` is how the pages call each other.
    name = words[0]
    chosen = [each for each in known if f"{each.page}-".startswith(f"{name}-")]
    if len(words) == 1 and chosen and chosen[0].page == name:
        return chosen
    typed = " ".join(words)
    hint = did_you_mean(typed, [" ".join(each.words[1:]) for each in known[1:]])
    raise UsageError(f"there is no command `{typed}`", hint=hint)


def _show(session: Session, context: click.Context, manual: "CommandManual") -> int:
    from ci_doctor.commands.manual.man_page import man_page
    from ci_doctor.commands.manual.viewer import show_page
    from ci_doctor.model.facts.man import ManFacts, ManPageFact
    from ci_doctor.model.outcome import Outcome
    from ci_doctor.version import tool_version

    page = man_page(manual, tool_version())
    facts = ManFacts(pages=(ManPageFact(name=manual.page, text=page),))
    outcome = Outcome(verdict=None, summary=f"{manual.page}(1)", facts=facts)
    text = page
    is_read = sys.stdout is not None and sys.stdout.isatty()
    if is_read and not session.as_json:
        text = "" if show_page(manual.page, page) else _help(context, manual)
    return session.finish(outcome, on_stdout=True, text=text)


def _help(context: click.Context, manual: "CommandManual") -> str:
    """The help text, for a machine without man(1)."""
    from ci_doctor.commands.manual.reading import command_at

    click.echo("man(1) cannot show the page here; this is the help text.", err=True)
    inner = command_at(context.find_root(), manual.words[1:])
    return f"{inner.get_help()}\n"


def _written(chosen: "list[CommandManual]", directory: Path, *, dry_run: bool) -> "Outcome":
    from ci_doctor.commands.manual.man_page import man_page
    from ci_doctor.commands.manual.page_files import plan_pages, write_pages
    from ci_doctor.model.facts.man import ManFacts, ManPageFact
    from ci_doctor.model.outcome import Outcome
    from ci_doctor.model.table import Table, row
    from ci_doctor.version import tool_version

    version = tool_version()
    actions = plan_pages(directory, {each.page: man_page(each, version) for each in chosen})
    if not dry_run:
        write_pages(actions)
    facts = tuple(
        ManPageFact(name=each.path.stem, file=str(each.path), state=each.state.value)
        for each in actions
    )
    count = f"{len(actions)} page{'s' if len(actions) > 1 else ''}"
    verb = "would write" if dry_run else "wrote"
    states = Table(
        title="Pages", rows=tuple(row(each.path.name, each.state.value) for each in actions)
    )
    return Outcome(
        verdict=None,
        summary=f"{verb} {count} to {directory}",
        tables=(states,),
        facts=ManFacts(pages=facts),
    )
