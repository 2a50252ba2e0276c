# SPDX-License-Identifier: Apache-2.0
"""Prepares a job's environment: what `setup-env` prints and `run` becomes a command in.

Everything is decided before anything is changed, so that a refusal leaves the machine as it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.commands.shims import Shims, install
from ci_doctor.config.decoding import decode_section, path_in
from ci_doctor.config.loading import load_config
from ci_doctor.environment import determinism, exports
from ci_doctor.environment.pins import Pins, decide_pins
from ci_doctor.environment.project import read_project
from ci_doctor.environment.settings import SetupEnvSettings
from ci_doctor.environment.targets import TargetInterpreter, choose_targets
from ci_doctor.environment.versions import compute_version
from ci_doctor.errors import PreparationError, UsageError
from ci_doctor.model.action import SetVariable
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import Case, CaseOutcome
from ci_doctor.model.table import Table, text_table


class Preparation(Struct, frozen=True, kw_only=True):
    """What is to be exported (`exports`, in order, with the marker last) and how it came about.

    `changed` names the variables that the job does not have yet, or not with this value, and the files that were written.
    """

    exports: dict[str, str]
    changed: tuple[str, ...]
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...]
    cases: tuple[Case, ...]
    facts: dict[str, Any]


def read_settings(
    config_path: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any]
) -> SetupEnvSettings:
    """The `[setup-env]` settings, with the paths of a file made relative to the working directory."""
    loaded = load_config(config_path, Path.cwd())
    settings, origins = decode_section(
        loaded, "setup-env", SetupEnvSettings, environ=environ, flags=flags
    )

    def placed(name: str, words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(path_in(loaded, origins[name], word)) for word in words)

    return replace(
        settings,
        projects=placed("projects", settings.projects),
        venvs=placed("venvs", settings.venvs),
        # A word without a slash is looked up on PATH.
        pythons=tuple(
            placed("pythons", (word,))[0] if "/" in word else word for word in settings.pythons
        ),
    )


def prepare(
    settings: SetupEnvSettings, environ: Mapping[str, str], *, dry_run: bool
) -> Preparation:
    """Decide the exports, install the shims, and say why. Raises PreparationError where a finding forbids it."""
    earlier = exports.ours(environ)
    projects = [read_project(Path(directory)) for directory in settings.projects]
    targets = choose_targets(
        settings.pythons, settings.venvs, [project.directory for project in projects], environ
    )
    pins = decide_pins(
        [compute_version(project, allow_fallback=settings.allow_fallback) for project in projects],
        environ,
        earlier,
    )
    _refuse_errors(pins.findings)
    profile = determinism.decide(settings.determinism, environ, earlier)
    exports.require_names(variable.name for variable in pins.variables)
    shims = _install(settings.preload, targets, dry_run=dry_run)
    return _describe(pins, profile, targets, shims, earlier, environ)


def with_output(preparation: Preparation, output: Path, *, differs: bool) -> Preparation:
    """What changes where the exports go to a file, which `differs` from them or holds them already."""
    if differs:
        return replace(preparation, changed=(*preparation.changed, str(output)))
    return replace(
        preparation,
        changed=tuple(each for each in preparation.changed if each not in preparation.exports),
    )


def _refuse_errors(findings: Sequence[Finding]) -> None:
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        raise PreparationError(
            f"the environment cannot be prepared: {errors[0].summary}",
            hint=errors[0].remedy,
            findings=tuple(findings),
        )


def _install(rules: Sequence[str], targets: Sequence[TargetInterpreter], *, dry_run: bool) -> Shims:
    if not rules:
        return Shims()
    if not targets:
        raise UsageError(
            "--preload has no interpreter to go into",
            hint="name one: --venv DIR or --python PY, or activate an environment",
        )
    shims = install(rules, targets, dry_run=dry_run)
    return replace(shims, findings=(*shims.findings, *_own_interpreter(targets)))


def _own_interpreter(targets: Sequence[TargetInterpreter]) -> Iterator[Finding]:
    """Our own environment may be one that pipx or uv made, where no job's code ever runs: not without a word."""
    for target in targets:
        if target.own and not target.named:
            yield Finding(
                rule="setup-env/own-interpreter",
                severity=Severity.NOTE,
                summary=f"the shim is for {target.python} ({target.why}), where ci-doctor itself is installed",
                remedy="name the job's interpreter with --venv DIR or --python PY, if this is another one",
            )


def _describe(
    pins: Pins,
    profile: determinism.Determinism,
    targets: Sequence[TargetInterpreter],
    shims: Shims,
    earlier: Mapping[str, str],
    environ: Mapping[str, str],
) -> Preparation:
    ours = {variable.name: variable.value for variable in (*pins.variables, *profile.variables)}
    marked = {**ours, exports.MARKER: exports.marker(ours, earlier)} if ours else {}
    changed = (
        *(name for name, value in ours.items() if environ.get(name) != value),
        *shims.changed,
    )
    titled = {
        "Versions": pins.lines,
        "Determinism, as requested (effective where the library reads it)": map(
            _variable_line, profile.requested
        ),
        "Preload": shims.lines,
        "Interpreters": map(_target_line, targets),
    }
    sections = (text_table(title=title, lines=tuple(lines)) for title, lines in titled.items())
    return Preparation(
        exports=marked,
        changed=changed,
        findings=(*pins.findings, *profile.findings, *shims.findings),
        tables=tuple(table for table in sections if table.rows),
        cases=tuple(_case(variable) for variable in (*pins.variables, *profile.variables)),
        facts={
            "exports": marked,
            "changed": list(changed),
            "determinism": [
                {"name": row.name, "requested": row.value, "effective": row.effective}
                for row in profile.requested
            ],
            "targets": [str(target.python) for target in targets],
        },
    )


def _variable_line(row: determinism.Requested) -> str:
    known = "" if row.effective == determinism.AS_REQUESTED else f"; {row.effective}"
    return f"{row.name}={row.value}  ({row.set_by}{known})"


def _target_line(target: TargetInterpreter) -> str:
    own = " (ci-doctor itself lives here)" if target.own else ""
    return f"{target.python}  from {target.why}{own}"


def _case(variable: SetVariable) -> Case:
    return Case(
        group="exports", name=variable.name, outcome=CaseOutcome.PASSED, message=variable.why
    )
