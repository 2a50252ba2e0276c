# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload audit`."""

from pathlib import Path

import click

from ci_doctor.commands.documented import TIME, command, option
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.commands.preload.options import interpreters_of, settings_of, target_options
from ci_doctor.session.session import Session


@command(
    "audit",
    section="setup-env",
    examples={
        "ci-doctor preload audit lmcache --venv .venv": "Read the source of an installed package.",
    },
    exits={
        0: "no sure race was seen",
        1: "a thread races a module that replaces itself",
        86: "code could not be read, or the time was up",
    },
)
@click.argument("package")
@option(
    "--trigger",
    "triggers",
    group="What is read",
    multiple=True,
    metavar="MODULE[:FUNCTION]",
    help="Also audit a program that imports MODULE and calls FUNCTION. Repeatable.",
)
@option(
    "--entry",
    "entries",
    group="What is read",
    multiple=True,
    metavar="NAME",
    help="Only this entry point. Repeatable.",
)
@option(
    "--follow",
    group="What is read",
    multiple=True,
    metavar="PACKAGE",
    help="Go through the code of this dependency too. Repeatable.",
)
@option(
    "--timeout",
    group=TIME,
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop after this time; the verdict is then void.",
)
@target_options
@config_option
@output_options
@pass_session
def audit(
    session: Session,
    package: str,
    triggers: tuple[str, ...],
    entries: tuple[str, ...],
    follow: tuple[str, ...],
    timeout: float,
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    config_path: Path | None,
) -> int:
    """Find the threads that an installed PACKAGE starts, and the imports that they race.

    Its source is read and nothing of it is imported. Entry points are its scripts,
    `python -m PACKAGE` and `import PACKAGE`.
    """
    from ci_doctor.commands.telling.line import LineKind
    from ci_doctor.commands.telling.steps import StepSource
    from ci_doctor.commands.telling.teller import Teller
    from ci_doctor.preload.audit.package_audit import AuditRequest
    from ci_doctor.preload.outcome.audit import audit as audit_package

    session.claim()
    targets = interpreters_of(settings_of(session, config_path, pythons, venvs))
    request = AuditRequest(
        package=package, triggers=triggers, entries=entries, follow=follow, timeout_s=timeout
    )
    with Teller(StepSource(LineKind.STATUS), group="ci-doctor preload audit: steps") as tell:
        outcome = audit_package(targets, request, tell=tell)
    return session.finish(outcome, on_stdout=outcome.error is None)
