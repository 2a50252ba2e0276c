# SPDX-License-Identifier: Apache-2.0
"""Reads the options of `ci-doctor import-race probe` and calls the room imports/."""

import os
from pathlib import Path

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import output_options, pass_session
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session


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
    shell_complete=values.interpreters,
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
