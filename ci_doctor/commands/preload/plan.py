# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload plan`."""

from pathlib import Path

from ci_doctor.commands.documented import command
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.commands.preload.options import (
    interpreters_of,
    rule_options,
    settings_of,
    target_options,
)
from ci_doctor.session.session import Session


@command(
    "plan",
    section="setup-env",
    examples={
        "ci-doctor preload plan --preset vllm --venv .venv": "Show what would be installed.",
    },
    exits={
        0: "planned",
        1: "a rule cannot be proven or armed in an interpreter",
        75: "an interpreter cannot be started",
    },
)
@rule_options
@target_options
@config_option
@output_options
@pass_session
def plan(
    session: Session,
    more_rules: tuple[str, ...],
    presets: tuple[str, ...],
    rules: tuple[str, ...],
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    replace: bool,
    force: bool,
    config_path: Path | None,
) -> int:
    """Print what `install` would do, file by file in each interpreter; change nothing.

    A RULE is TRIGGER=MODULE[:ATTR,ATTR][;MODULE...], or the name of a preset; without any, those of
    `preload` in [setup-env]. A child of each interpreter imports the modules to preload once, to
    check the effect.
    """
    from ci_doctor.preload.install import install

    session.claim()
    texts = (*presets, *rules, *more_rules)
    settings = settings_of(session, config_path, pythons, venvs, texts)
    targets = interpreters_of(settings)
    outcome = install(targets, settings.preload, replace=replace, force=force, dry_run=True)
    return session.finish(outcome, on_stdout=outcome.error is None)
