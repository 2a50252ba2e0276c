# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor diagnose`, and `ci-doctor diagnose rules`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ci_doctor.commands.documented import (
    PATH,
    VERDICT,
    DocumentedCommand,
    command,
    config_option,
    load_configuration,
    option,
    output_options,
    pass_session,
)
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.config.loading import Config
    from ci_doctor.diagnosis.diagnosis import DiagnoseRequest
    from ci_doctor.model.cause import Cause


def own_rule_files(config_path: Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The repository's rules files, relative to the file naming them. Raises ConfigError."""
    from ci_doctor.config.loading import load_config

    return rule_files(load_config(config_path, Path.cwd()), environ)


def rule_files(loaded: "Config", environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The same of a configuration that is loaded."""
    from ci_doctor.config.decoding import decode_section, path_in
    from ci_doctor.diagnosis.log_rules import DiagnoseSettings

    settings, origins = decode_section(
        loaded, "diagnose", DiagnoseSettings, environ=environ, flags={}
    )
    return tuple(path_in(loaded, origins["rules"], name) for name in settings.rules)


def follow_until_interrupted(session: "Session", request: "DiagnoseRequest") -> int:
    """Print each cause as it appears, with `--json` as a line of JSON; then the report on stderr."""
    from ci_doctor.diagnosis.follow import follow_logs
    from ci_doctor.render.text import named_cause_json, named_cause_text
    from ci_doctor.session.delivery import write_data
    from ci_doctor.session.printing import harmless
    from ci_doctor.system.processes.interruption import Interruption

    redactor = session.redactor
    as_json = session.as_json
    # Its stdout holds a line a cause, and no report behind them.
    session.as_json = False

    def show(cause: "Cause") -> None:
        safe = redactor.value(cause)
        if as_json:
            write_data(sys.stdout, named_cause_json(safe))
        else:
            write_data(sys.stdout, harmless(named_cause_text(safe), sys.stdout))

    interruption = Interruption()
    with interruption.handling():
        outcome = follow_logs(request.logs, request.rules, interruption, show)
        return session.finish(outcome)


@command(
    "rules",
    section="diagnose",
    examples={
        "ci-doctor diagnose rules": "List all rules.",
        "ci-doctor diagnose rules --check ci/log-rules.toml": "Test a rules file of your own.",
    },
    exits={
        0: "listed; with --check every rule is right",
        1: "--check: a rule is wrong",
    },
)
@option(
    "--check",
    "checked",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Test a rules file: its examples, its literals, its regexes, and which other rules match them.",
)
@config_option
@output_options
@pass_session
def rules(session: Session, checked: Path | None, config_path: Path | None) -> int:
    """List the rules about log lines, ci-doctor's own and those of this repository."""
    from ci_doctor.diagnosis.explained import check_outcome, rules_outcome

    session.claim()
    if checked is not None:
        return session.finish(check_outcome(checked), on_stdout=True)
    outcome = rules_outcome(own_rule_files(config_path, os.environ))
    return session.finish(outcome, on_stdout=True)


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

        return rules.make_context(f"{info_name} {_RULES}", args[1:], parent, **extra)


@command(
    "diagnose",
    section="diagnose",
    below={"rules": "ci_doctor.commands.diagnose"},
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
        86: "no log can be read, or the logs are blank",
    },
    cls=_Diagnose,
    epilog="`ci-doctor diagnose rules` lists the rules; `ci-doctor diagnose rules --check FILE` tests a file of them.",
)
@click.argument("logs", nargs=-1, required=True, metavar="LOG…", type=PATH)
@option(
    "--baseline",
    group="Logs",
    multiple=True,
    metavar="GOOD",
    type=PATH,
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

    from ci_doctor.diagnosis.diagnosis import DiagnoseRequest

    loaded = load_configuration(session, config_path)
    request = DiagnoseRequest(
        logs=logs, baseline=baseline, rules=rule_files(loaded, os.environ), status=status
    )
    if follow:
        return follow_until_interrupted(session, request)
    from ci_doctor.commands.run_record import with_history
    from ci_doctor.commands.teller import late_teller
    from ci_doctor.diagnosis.diagnosis import outcome_of, run
    from ci_doctor.diagnosis.outside import verdict_by_class

    with late_teller() as tell:
        diagnosis = run(request, tell)
    # A command that ended with 0 has no failure to give a code for.
    if by_class and status != 0:
        unjudged_as = verdict_by_class(diagnosis.cause)
        load_configuration(session, config_path, unjudged_as=unjudged_as)
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
