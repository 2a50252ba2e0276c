# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor import-race`, and its probe."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands.documented import (
    PATH,
    check_separator,
    command,
    config_option,
    load_configuration,
    option,
    output_options,
    pass_session,
    stands_behind,
)
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.imports.investigate import RaceRequest


@command(
    "probe",
    examples={
        "ci-doctor import-race probe transformers:GenerationConfig": "Check one name of one module in this interpreter.",
    },
    exits={
        0: "the import cannot be lost",
        1: "the import can be lost to another thread's",
        86: "the module cannot be imported at all",
    },
)
@option(
    "--python",
    metavar="PY",
    type=PATH,
    help="The interpreter. [default: $VIRTUAL_ENV, .venv, python3 on PATH]",
)
@output_options
@click.argument("target", metavar="MODULE[:ATTR]")
@pass_session
def probe(session: Session, /, *, target: str, python: str | None) -> int:
    """Check whether an import of MODULE (or of ATTR from it) can be lost to another thread's."""
    session.claim()

    from ci_doctor.imports import probe as room
    from ci_doctor.machine.interpreters import choose_targets

    module, attribute = room.parse_target(target)
    targets = choose_targets([python] if python else [], [], [Path.cwd()], os.environ)
    if not targets:
        raise UsageError("no interpreter found", hint="name one: --python PY")
    return session.finish(room.run(targets[0].python, module, attribute), on_stdout=True)


@command(
    "import-race",
    below={"probe": "ci_doctor.commands.import_race"},
    examples={
        "ci-doctor import-race -- python app.py": "Record one run, and report possible races.",
        "ci-doctor import-race --confirm -- python -m server --once": "Make each hazard fire.",
    },
    exits={
        0: "no race; with --confirm none that did harm",
        1: "a race did harm: in this run, or with --confirm in a run with a delay",
        86: "races are possible and none fired, or nothing is known",
    },
    context_settings={"allow_interspersed_args": False},
    epilog="`ci-doctor import-race probe MODULE[:ATTR]` checks one module in one interpreter.",
)
@option(
    "--confirm",
    group="Runs",
    is_flag=True,
    help="Run CMD again for each hazard, with a delay to make it fire.",
)
@option(
    "--timeout",
    group="Runs",
    metavar="S",
    help="End a command that does not end by itself. [default: none]",
)
@option(
    "--candidates",
    group="Runs",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many hazards --confirm tries, the worst first.",
)
@config_option
@output_options
@click.argument(
    "words",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="[probe MODULE[:ATTR]] | -- CMD…",
)
@click.pass_context
def import_race(
    context: click.Context,
    /,
    *,
    words: tuple[str, ...],
    confirm: bool,
    timeout: str | None,
    candidates: int,
    config_path: Path | None,
) -> int:
    """Run CMD, record its imports across threads, and report possible races.

    Reports races even if nothing went wrong. Follows all Python processes of CMD, except those that
    ignore PYTHONPATH.
    """
    session: Session = context.obj
    invocation = session.invocation
    if words[0] == "probe" and not stands_behind(invocation, words):
        return _probe(context, words[1:])
    check_separator(invocation, words)
    # Before anything else: no report of an earlier attempt may outlive this one, however it ends.
    session.claim()

    from ci_doctor.commands.run_record import record_environment
    from ci_doctor.config.decoding import seconds_above_zero
    from ci_doctor.environment.preparation import missing_preparation
    from ci_doctor.imports.investigate import RaceRequest, not_run
    from ci_doctor.services.launch_plan import problem

    loaded = load_configuration(session, config_path)
    if reason := problem(words[0], os.environ, Path.cwd()):
        return session.finish(not_run(*reason))
    timeout_s = None
    if timeout is not None:
        timeout_s = seconds_above_zero(timeout, "--timeout")
    session.observe(*missing_preparation(loaded, os.environ))
    record_environment(session, config_path)
    request = RaceRequest(
        command=words,
        # With --json our own stdout holds nothing but the report.
        output=2 if session.as_json else 1,
        timeout_s=timeout_s,
        confirming=confirm,
        candidates=candidates,
    )
    return _investigate(session, request)


def _investigate(session: "Session", request: "RaceRequest") -> int:
    from ci_doctor.commands.teller import Teller
    from ci_doctor.imports.investigate import run
    from ci_doctor.system.processes.interruption import Interruption

    redactor = session.redactor
    interruption = Interruption()
    with interruption.handling():
        with Teller(redactor, group="ci-doctor import-race: runs") as tell:
            outcome = run(
                request,
                directory=session.directory,
                redactor=redactor,
                interruption=interruption,
                on_event=tell.say,
            )
        return session.finish(outcome)


def _probe(context: click.Context, words: tuple[str, ...]) -> int:

    with probe.make_context(
        "ci-doctor import-race probe",
        list(words),
        obj=context.obj,
        help_option_names=context.help_option_names,
    ) as inner:
        return int(probe.invoke(inner) or 0)
