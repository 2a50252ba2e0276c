# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor diagnose`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import VERDICT, DocumentedCommand, command, option
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session

_RULES = "rules"  # the word of a command of its own; a log of that name is `./rules`


class _Diagnose(DocumentedCommand):
    """Names of logs, or the word `rules` and what belongs to it."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """The context of `diagnose rules` if that is typed, else our own."""
        if args[:1] != [_RULES]:
            return super().make_context(info_name, args, parent, **extra)
        from ci_doctor.commands.diagnose.rules import rules

        return rules.make_context(f"{info_name} {_RULES}", args[1:], parent, **extra)


@command(
    "diagnose",
    section="diagnose",
    below={"rules": "ci_doctor.commands.diagnose.rules"},
    examples={
        "ci-doctor diagnose logs/": "Read all logs of a job together.",
        "ci-doctor diagnose 'logs/**/*.log' --baseline last-green.log": "Leave out what a good run says, too.",
        "ci-doctor diagnose --follow server.log": "Name causes while the server runs.",
        "ci-doctor diagnose make.log --status 2": "Say how the command ended that wrote the log.",
    },
    exits={
        0: "the logs were read, with or without a cause",
        1: "--exit-code-by-class: another run does not help, or the cause may be the change",
        75: "--exit-code-by-class: another run helps, and the cause lies outside the change",
        86: "no log can be read",
    },
    cls=_Diagnose,
    epilog="`ci-doctor diagnose rules` lists the rules; `ci-doctor diagnose rules --check FILE` tests a file of them.",
)
@click.argument(
    "logs", nargs=-1, required=True, metavar="LOG…", shell_complete=values.logs_or_rules
)
@option(
    "--baseline",
    group="Logs",
    multiple=True,
    metavar="GOOD",
    shell_complete=values.files,
    help="Log of a good run. Its lines explain no failure. Repeatable.",
)
@option(
    "--status",
    group="Logs",
    type=click.IntRange(-64, 255),
    metavar="N",
    help="Exit status of the command that wrote the logs; -9 for SIGKILL. With 0 no cause is named.",
)
@option("--follow", group="Logs", is_flag=True, help="Name causes as they appear, until Ctrl-C.")
@option(
    "--exit-code-by-class",
    "by_class",
    group=VERDICT,
    is_flag=True,
    help="Exit with 75 if another run helps and the cause lies outside the change, else with 1.",
)
@config_option
@output_options
@pass_session
def diagnose(
    session: Session,
    /,
    *,
    logs: tuple[str, ...],
    baseline: tuple[str, ...],
    status: int | None,
    follow: bool,
    by_class: bool,
    config_path: Path | None,
) -> int:
    """Name the root cause of a failed job: the line in its logs, what followed, and what to do.

    Give all logs of the job, because the time-out may stand in one and the traceback in another. A
    LOG is a file, also a packed one, a folder, a pattern in quotes, or - for stdin.
    """
    given = {
        "--exit-code-by-class": by_class,
        "--baseline": bool(baseline),
        "--status": status is not None,
    }
    _check(given, follow=follow)
    session.claim()

    from ci_doctor.commands.diagnose_settings import exit_policy, rule_files
    from ci_doctor.config.loading import load_config
    from ci_doctor.diagnosis.diagnosis import DiagnoseRequest

    loaded = load_config(config_path, Path.cwd())
    session.policy = exit_policy(loaded, os.environ, None)
    request = DiagnoseRequest(
        logs=logs, baseline=baseline, rules=rule_files(loaded, os.environ), status=status
    )
    if follow:
        from ci_doctor.commands.diagnose.follow import follow_until_interrupted

        return follow_until_interrupted(session, request)
    from ci_doctor.commands.history_database import with_history
    from ci_doctor.commands.telling.late import LateTeller
    from ci_doctor.diagnosis.diagnosis import run
    from ci_doctor.diagnosis.outcome import outcome_of
    from ci_doctor.diagnosis.outside import verdict_by_class

    with LateTeller() as tell:
        diagnosis = run(request, tell)
    # A command that ended with 0 has no failure to give a code for.
    if by_class and status != 0:
        session.policy = exit_policy(loaded, os.environ, verdict_by_class(diagnosis.cause))
    outcome = with_history(session, loaded, outcome_of(diagnosis))
    return session.finish(outcome, on_stdout=True)


def _check(given: Mapping[str, bool], *, follow: bool) -> None:
    """Raises UsageError for options that exclude each other; `given`: which of them are there."""
    for name, is_given in given.items():
        if follow and is_given:
            raise UsageError(
                f"--follow and {name} exclude each other",
                hint=f"`ci-doctor diagnose LOG {name}` reads the log once it has ended",
            )
