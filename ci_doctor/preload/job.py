# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: a job's environment with preload rules."""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ci_doctor.environment import rules as environment_rules
from ci_doctor.environment.preparation import Preparation, prepare
from ci_doctor.environment.settings import SetupEnvSettings
from ci_doctor.errors import UsageError
from ci_doctor.model.finding import Rule, Severity
from ci_doctor.model.table import Table, row, text_table
from ci_doctor.preload.injection import ISOLATING, isolation, with_rules
from ci_doctor.preload.install import install_shims
from ci_doctor.preload.preload_rule import format_rules
from ci_doctor.preload.presets import rules_of, split_texts

NOT_REACHED: Final = Rule(
    id="preload/not-reached",
    severity=Severity.WARNING,
    meaning=(
        "The command of `ci-doctor run --preload` starts a Python with -I, -E or -S, "
        "and such a Python does not read PYTHONPATH."
    ),
    remedy=(
        "Install the shim instead, with `ci-doctor preload install`: it works with -I and -E. "
        "Nothing works with -S."
    ),
)
RULES: Final = (NOT_REACHED,)


def prepare_job(
    settings: SetupEnvSettings, environ: Mapping[str, str] = os.environ, *, dry_run: bool = False
) -> Preparation:
    """Decide the exports, then install the shims of `settings.preload`; `dry_run` installs nothing.

    Everything is decided before anything is changed, so that a refusal leaves the machine as it
    was. Raises UsageError, and PreparationError if a finding forbids it.
    """
    preparation = prepare(settings, environ)
    if not settings.preload:
        return preparation
    if not preparation.targets:
        raise UsageError(
            "--preload has no interpreter to go into",
            hint="name one: --venv DIR or --python PY, or activate an environment",
        )
    pythons = [target.python for target in preparation.targets]
    rules, presets = split_texts(settings.preload)
    changed = list(preparation.changed)
    findings = list(preparation.findings)
    rows = []
    for result in install_shims(pythons, rules, dry_run=dry_run, presets=presets):
        change = result.change
        changed += [action.path for action in change.changing]
        findings += result.findings
        states = sorted({str(action.state) for action in change.changing})
        rows.append(row(str(change.site_dir), ", ".join(states) or "unchanged"))
    for target in preparation.targets:
        # Our own environment may be one that pipx or uv made, where no job's code ever runs.
        if target.own and not target.named:
            own = environment_rules.OWN_INTERPRETER
            findings.append(
                own.finding(
                    f"the shim is for {target.python} ({target.why}), "
                    "where ci-doctor itself is installed",
                    remedy=own.remedy,
                )
            )
    return replace(
        preparation,
        changed=tuple(changed),
        findings=tuple(findings),
        tables=(*preparation.tables, Table(title="Preload", rows=tuple(rows))),
    )


def prepare_command(
    settings: SetupEnvSettings,
    command: Sequence[str],
    environ: Mapping[str, str] = os.environ,
) -> tuple[dict[str, str], Preparation]:
    """The environment for `command`, which preloads with its children, and its preparation.

    Nothing is installed. Raises UsageError, and PreparationError if a finding forbids it.
    """
    texts = settings.preload
    preparation = prepare(replace(settings, preload=()), environ)
    prepared = {**environ, **preparation.exports}
    if not texts:
        return prepared, preparation
    rules = rules_of(texts)
    lines = format_rules(rules)
    limits = (
        "for this command and what it starts, by PYTHONPATH; "
        "a Python with -I, -E or -S is not reached"
    )
    table = text_table("Preload", (*(f"rule {line}" for line in lines), limits))
    preparation = replace(
        preparation,
        changed=(*preparation.changed, "PYTHONPATH"),
        tables=(*preparation.tables, table),
        preloads=lines,
    )
    option = isolation(command, prepared)
    if option is not None:
        remedy = (
            f"install the shim, which works there: ci-doctor preload install {shlex.join(texts)}"
        )
        if option == "-S":
            remedy = "start it without -S: no shim works with it"
        summary = (
            f"{command[0]} starts a Python with {option} ({ISOLATING[option]}): it will not preload"
        )
        preparation = preparation.with_findings(NOT_REACHED.finding(summary, remedy=remedy))
    return with_rules(prepared, rules), preparation
