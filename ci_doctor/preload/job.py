# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: a job's environment with preload rules."""

import os
import shlex
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ci_doctor.environment import rules as environment_rules
from ci_doctor.environment.preparation import Preparation, prepare
from ci_doctor.environment.settings import SetupEnvSettings
from ci_doctor.errors import UsageError
from ci_doctor.machine.interpreters import TargetInterpreter
from ci_doctor.model.finding import Finding
from ci_doctor.model.table import Row, Table, row, text_table
from ci_doctor.preload import rules as finding_rules
from ci_doctor.preload.injection import with_rules
from ci_doctor.preload.install import install_shims
from ci_doctor.preload.isolation import isolation
from ci_doctor.preload.outcome.change import changing
from ci_doctor.preload.preload_rule import format_rules
from ci_doctor.preload.preset_fit import PresetUse
from ci_doctor.preload.presets import rules_of, split_texts
from ci_doctor.preload.result import InstallResult


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
    rules, names = split_texts(settings.preload)
    results = install_shims(pythons, rules, dry_run=dry_run, presets=PresetUse(names=names))
    changed = list(preparation.changed)
    findings = list(preparation.findings)
    rows = []
    for result in results:
        changed += [str(action.path) for action in changing(result)]
        findings += result.findings
        rows.append(_row(result))
    findings += [_own_interpreter(each) for each in preparation.targets if _is_unintended(each)]
    table = Table(title="Preload", rows=tuple(rows))
    return replace(
        preparation,
        changed=tuple(changed),
        findings=tuple(findings),
        tables=(*preparation.tables, table),
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
    reason = isolation(command, prepared)
    if reason is not None:
        preparation = preparation.with_findings(_not_reached(command, reason, texts))
    return with_rules(prepared, rules), preparation


def _row(result: InstallResult) -> Row:
    states = sorted({str(action.state) for action in changing(result)})
    return row(str(result.target.site_dir), ", ".join(states) or "unchanged")


def _is_unintended(target: TargetInterpreter) -> bool:
    """Our own environment may be one that pipx or uv made, where no job's code ever runs."""
    return target.own and not target.named


def _own_interpreter(target: TargetInterpreter) -> Finding:
    return environment_rules.OWN_INTERPRETER.finding(
        f"the shim is for {target.python} ({target.why}), where ci-doctor itself is installed",
        remedy=environment_rules.OWN_INTERPRETER.remedy,
    )


def _not_reached(command: Sequence[str], reason: str, texts: Sequence[str]) -> Finding:
    if reason.startswith("-S"):
        remedy = "start it without -S: no shim works with it"
    else:
        words = shlex.join(texts)
        remedy = f"install the shim, which works there: ci-doctor preload install {words}"
    summary = f"{command[0]} starts a Python with {reason}: it will not preload"
    return finding_rules.NOT_REACHED.finding(summary, remedy=remedy)
