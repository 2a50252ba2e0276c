# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload install`."""

from pathlib import Path

from ci_doctor.commands.documented import command
from ci_doctor.commands.options import (
    config_option,
    dry_run_option,
    output_options,
    pass_session,
)
from ci_doctor.commands.preload.options import (
    interpreters_of,
    rule_options,
    settings_of,
    target_options,
)
from ci_doctor.session.session import Session


@command(
    "install",
    section="setup-env",
    examples={
        "ci-doctor preload install --preset vllm --venv .venv": "Install the shims of a preset.",
        "ci-doctor preload install --rule vllm=transformers:GenerationConfig --python python3": "Install a rule of your own.",
    },
    exits={
        0: "installed, or there already",
        1: "a rule cannot be proven or armed in an interpreter",
        75: "an interpreter cannot be started or written to",
    },
)
@rule_options
@target_options
@config_option
@dry_run_option
@output_options
@pass_session
def install(
    session: Session,
    more_rules: tuple[str, ...],
    presets: tuple[str, ...],
    rules: tuple[str, ...],
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    replace: bool,
    force: bool,
    config_path: Path | None,
    dry_run: bool,
) -> int:
    """Install a shim with the rules in each interpreter, or in none if one is refused.

    A RULE is TRIGGER=MODULE[:ATTR,ATTR][;MODULE...], or the name of a preset; without any, those of
    `preload` in [setup-env]. They are added to the armed rules. A second identical call changes
    nothing.
    """
    from ci_doctor.preload import install as change

    session.claim()
    texts = (*presets, *rules, *more_rules)
    settings = settings_of(session, config_path, pythons, venvs, texts)
    targets = interpreters_of(settings)
    outcome = change.install(
        targets, settings.preload, replace=replace, force=force, dry_run=dry_run
    )
    return session.finish(outcome, on_stdout=outcome.error is None)
