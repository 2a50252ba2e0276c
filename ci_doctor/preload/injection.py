# SPDX-License-Identifier: Apache-2.0
"""Reads scripts: an environment in which a command's interpreters execute files of ours.

A `sitecustomize` on PYTHONPATH is imported by every Python that reads this variable, and so by
spawned, forked and subprocess children. It runs the one that it hides. `isolation` says why a
command line would not do so.
"""

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ci_doctor.environment import rules as environment_rules
from ci_doctor.environment.determinism import SetupEnvSettings
from ci_doctor.environment.preparation import Preparation, prepare
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import Rule, Severity, Table, row, text_table
from ci_doctor.preload.install import install_shims
from ci_doctor.preload.preload_rule import PreloadRule, format_rules, rules_of

INJECT = "CI_DOCTOR_INJECT"
RULES_VARIABLE = "CI_DOCTOR_PRELOAD_RULES"
FOLDER = Path(__file__).parent / "injected"
_SHIM = Path(__file__).parent / "shim"
_PRELOAD_FILES: Final = (
    _SHIM / "_ci_doctor_preload_rt.py",
    _SHIM / "_ci_doctor_preload.py",
    FOLDER / "_ci_doctor_preload_rules.py",
)

# Options of CPython after which PYTHONPATH is not read or `site` not run, and what else hides it.
ISOLATING: Final = {
    "-I": "ignores PYTHONPATH",
    "-E": "ignores PYTHONPATH",
    "-S": "does not run `site`",
    "env -i": "a clean environment",
}
_SHELLS: Final = ("sh", "bash", "dash", "zsh", "ksh")
_CLEAN_ENVIRONMENT: Final = frozenset({"-", "-i", "--ignore-environment"})


def injected(environ: Mapping[str, str], files: Sequence[Path], **variables: str) -> dict[str, str]:
    """`environ` in which every Python executes `files` at its start, besides earlier ones."""
    folder = str(FOLDER)
    before = environ.get("PYTHONPATH")
    # An empty entry stays: it is the working directory. An empty variable has none.
    path = before.split(os.pathsep) if before else []
    entries = [folder, *(entry for entry in path if entry != folder)]
    executed = [*filter(None, environ.get(INJECT, "").split(os.pathsep)), *map(str, files)]
    return {
        **environ,
        "PYTHONPATH": os.pathsep.join(entries),
        INJECT: os.pathsep.join(dict.fromkeys(executed)),
        **variables,
    }


def with_rules(environ: Mapping[str, str], rules: Sequence[PreloadRule]) -> dict[str, str]:
    """`environ` in which every Python preloads by `rules`, besides those that it has already."""
    texts = [*environ.get(RULES_VARIABLE, "").split(), *format_rules(rules)]
    return injected(environ, _PRELOAD_FILES, **{RULES_VARIABLE: " ".join(dict.fromkeys(texts))})


def isolation(words: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Why the first Python in the command line `words` will not execute what is injected.

    A key of ISOLATING, None if nothing shows it. Looks behind `env`, `timeout 5` and the like, into the script of `sh
    -c`, and at the first line of a script on disk.
    """
    line = list(words)
    if len(line) > 2 and Path(line[0]).name in _SHELLS and re.fullmatch("-[a-z]*c", line[1]):
        line = line[2].split()
    if not line:
        return None
    start = _first_python(line)
    program = shutil.which(line[0], path=environ.get("PATH")) if start != 0 else None
    interpreter = _interpreter_line(Path(program)) if program else []
    # A script on disk: the Python of its first line runs it, whatever Python its arguments name.
    if _first_python(interpreter) is not None:
        line = [*interpreter, *line]
        start = _first_python(line)
    if start is None:
        return None
    if Path(line[0]).name == "env" and _CLEAN_ENVIRONMENT & {*line[1:start]}:
        return "env -i"
    return isolating_option(line[start:])


def isolating_option(words: Sequence[str]) -> str | None:
    """The option in a Python command line after which nothing injected runs; None if there is none.

    A key of ISOLATING.
    """
    if not words or not _is_python(words[0]):
        return None
    is_value = False
    for word in words[1:]:
        if is_value or word.startswith("--"):
            is_value = word == "--check-hash-based-pycs"
            continue
        if not re.fullmatch("-.+", word):
            return None
        # -W and -X take a value, in the same word or the next; -c and -m end the options.
        flags, last, value = re.split("([WXcm]|$)", word[1:], maxsplit=1)
        for flag in flags:
            if f"-{flag}" in ISOLATING:
                return f"-{flag}"
        if last in ("c", "m"):
            return None
        is_value = last in ("W", "X") and not value
    return None


def _first_python(words: Sequence[str]) -> int | None:
    return next((index for index, word in enumerate(words) if _is_python(word)), None)


def _is_python(word: str) -> bool:
    return re.fullmatch(r"python(\d+(\.\d+)?t?)?", Path(word).name) is not None


def _interpreter_line(script: Path) -> list[str]:
    try:
        with script.open("rb") as file:
            first = file.readline(512)
    except OSError:
        return []
    return first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []


# Acts on files and processes: a job's environment with preload rules.

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
    rules = rules_of(settings.preload)
    changed = list(preparation.changed)
    findings = list(preparation.findings)
    rows = []
    for result in install_shims(pythons, rules, dry_run=dry_run):
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
