# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor diagnose rules`."""

import os
from pathlib import Path

import click

from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.session.session import Session


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
    from ci_doctor.commands.diagnose_settings import own_rule_files
    from ci_doctor.diagnosis.explained import check_outcome, rules_outcome

    session.claim()
    if checked is not None:
        return session.finish(check_outcome(checked), on_stdout=True)
    outcome = rules_outcome(own_rule_files(config_path, os.environ))
    return session.finish(outcome, on_stdout=True)
