# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which checks there are, which make sense here, and those of the repository, which are run."""

import shlex
import signal
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from typing import Final

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    DoctorCheck,
    Fault,
    Findings,
    Need,
    UndeterminedError,
    problem,
    result_of,
    unknown_result,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.settings import DoctorSettings, OwnCheck, Workload, timeout_s, words_of
from ci_doctor.errors import UsageError
from ci_doctor.machine.gpus import shows_gpu
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import Evidence, Rule, Severity, ShellCommand
from ci_doctor.model.words import nearest
from ci_doctor.system.processes.limited_runs import SeparateRun
from ci_doctor.system.secrets.redaction import Redactor

# The modules with the checks, in the order of a report; a new one adds its line here.
TOPICS = (
    "gpu.driver",
    "gpu.devices",
    "gpu.xids",
    "gpu.cuda",
    "disks",
    "limits",
    "network",
    "leftovers",
    "checkout",
    "python.interpreters",
    "python.paths",
    "python.packages",
    "starts",
    "all_checks",  # those of the repository
)
# Options of `ci-doctor doctor` that take time of their own, and the modules of each.
ON_REQUEST = {
    "imports": ("entry_points",),
    "gpu": ("gpu_proof",),
}
# The area of their checks, and the option.
_OPTION_OF = {"imports": "imports", "gpu_proof": "gpu"}


def all_checks(settings: DoctorSettings, requested: Sequence[str] = ()) -> tuple[DoctorCheck, ...]:
    """Every check, those of the repository too; of ON_REQUEST only what is `requested`.

    A module's checks are its own DoctorCheck values in order of definition. One whose checks depend
    on the settings has a function `checks` that returns them instead.
    """
    checks: list[DoctorCheck] = []
    for name in (*TOPICS, *(name for option in requested for name in ON_REQUEST[option])):
        module = import_module(f"ci_doctor.checks.{name}")
        if hasattr(module, "checks"):
            checks.extend(module.checks(settings))
            continue
        checks.extend(
            each
            for each in vars(module).values()
            if isinstance(each, DoctorCheck) and each.run.__module__ == module.__name__
        )
    return tuple(checks)


def all_rules() -> tuple[Rule, ...]:
    """The rules of what `ci-doctor doctor` finds: those of checks as such, and of each module."""
    rules: dict[str, Rule] = {}
    for name in (
        "running",
        *TOPICS,
        *(name for names in ON_REQUEST.values() for name in names),
    ):
        for value in vars(import_module(f"ci_doctor.checks.{name}")).values():
            if isinstance(value, Rule):
                rules[value.id] = value
    return tuple(rules.values())


def requested_by(wanted: Sequence[str]) -> tuple[str, ...]:
    """The options of ON_REQUEST whose checks `wanted` names: `imports/services` needs no option."""
    areas = {name.partition("/")[0] for name in wanted}
    return tuple(option for area, option in _OPTION_OF.items() if area in areas)


def chosen(
    checks: Sequence[DoctorCheck], wanted: Sequence[str], skipped: Sequence[str]
) -> tuple[DoctorCheck, ...]:
    """The checks that a name of `wanted` matches (all, if it is empty), and none of `skipped`.

    A name is an id, an area, or a pattern (fnmatch). Raises UsageError for one that matches nothing.
    What was not requested can be left out all the same: one configuration serves all jobs.
    """
    areas = {check.area for check in checks}
    for name in wanted:
        _require_match(name, checks)
    for name in skipped:
        area = name.partition("/")[0]
        if area in areas or area not in _OPTION_OF:
            _require_match(name, checks)
    kept = []
    for check in checks:
        is_wanted = not wanted or any(_matches(check, name) for name in wanted)
        if is_wanted and not any(_matches(check, name) for name in skipped):
            kept.append(check)
    return tuple(kept)


def _require_match(name: str, checks: Sequence[DoctorCheck]) -> None:
    if any(_matches(check, name) for check in checks):
        return
    known = {*_OPTION_OF}
    for check in checks:
        known |= {check.id, check.area}
    near = nearest(name, known)
    hint = f"did you mean `{near}`?" if near is not None else "`ci-doctor doctor --list` names all"
    raise UsageError(f"no check is named `{name}`", hint=hint)


def _matches(check: DoctorCheck, name: str) -> bool:
    return name in {check.id, check.area} or fnmatchcase(check.id, name)


def missing_need(check: DoctorCheck, context: CheckContext) -> str | None:
    """Why `check` makes no sense here, as a clause; None if it does."""
    return None if _is_met(check.need, context) else check.need.value


def _is_met(need: Need, context: CheckContext) -> bool:
    match need:
        case Need.NOTHING:
            return True
        case Need.GPU:
            return shows_gpu(context.root, context.environ)
        case Need.INTERPRETER:
            return bool(context.targets)
        case Need.GIT_CHECKOUT:
            return any((place / ".git").exists() for place in (context.cwd, *context.cwd.parents))
        case Need.SERVICES:
            return bool(context.services)


# --- a check of the repository: its exit status and its output ---


OWN_CHECK_FAILED: Final = Rule(
    id="doctor/own-check-failed",
    severity=Severity.ERROR,
    meaning="A check of the repository, a command in `[doctor.checks]`, failed. Exit "
    "status 75 is an error of the environment. Any other status has the severity and the fault that "
    "the configuration gives it. 0 is ok. 86, 126, 127 and the end by a signal are unknown.",
    remedy="Run the command by itself, and see what it prints.",
)
# POSIX, Shell Command Language, 2.8.2: what a shell says of a command that it could not run.
_NOT_RUN: Final = {126: "it cannot be executed", 127: "it was not found"}
# POSIX, the same place: a shell says so of a command that a signal ended.
_SIGNALLED: Final = 128
# The last lines of stderr say what is wrong; a log belongs elsewhere.
_EVIDENCE_LINES: Final = 8
_LONGEST_LINE: Final = 300


def checks(settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the repository, in the order of its configuration.

    Raises ValueError for one that `require_runnable` refuses.
    """
    return tuple(own_check(name, own) for name, own in settings.checks.items())


def own_check(name: str, own: OwnCheck) -> DoctorCheck:
    """The check `own/NAME`. Raises ValueError if `own` cannot be run as it is written."""
    return DoctorCheck(
        id=f"own/{name}",
        title=f"`{shlex.join(words_of(own))}`",
        run=partial(_run, name, own),
        cost=Cost.PROGRAM,
        needed_for=frozenset(Workload(each) for each in own.needed_for),
        deadline_s=timeout_s(own),
    )


def _run(name: str, own: OwnCheck, context: CheckContext) -> CheckResult:
    words = words_of(own)
    try:
        ran = context.run(words)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UndeterminedError(f"`{words[0]}` cannot be run: {reason}") from error
    return result_of(judged(name, own, ran, Redactor.from_environment(context.environ)))


def judged(name: str, own: OwnCheck, ran: SeparateRun, redactor: Redactor) -> Findings:
    """What the end of the command says, without secrets."""
    code = ran.exit_code
    # Before a line is cut: a half of a secret would not be known as one.
    lines = redactor.text(ran.stdout).strip().splitlines()
    said = _cut(lines[-1].strip().removesuffix(".")) if lines else ""
    if code == ExitCode.PASS:
        return said or "exit status 0"
    errors = redactor.text(ran.stderr).rstrip().splitlines()[-_EVIDENCE_LINES:]
    evidence = (Evidence(excerpt="\n".join(map(_cut, errors))),) if errors else ()
    if code == ExitCode.UNDECIDED:
        reason = said or "exit status 86"
        return CheckResult(summary=reason, unknown=reason, evidence=evidence)
    command = shlex.join(words_of(own))
    not_judged = _not_judged(code)
    if code is None or not_judged is not None:
        return unknown_result(f"`{command}`: {not_judged}")
    summary = f"{name}: {said or f'exit status {code}'}"
    is_infra = code == ExitCode.INFRA
    yield problem(
        OWN_CHECK_FAILED,
        summary,
        evidence=evidence,
        # What the configuration says to do; else the command, to see all that it prints.
        remedy=ShellCommand(command) if own.remedy is None else own.remedy,
        severity=Severity.ERROR if is_infra else Severity(own.severity),
        fault=Fault.ENVIRONMENT if is_infra else Fault(own.fault),
    )
    return summary


def _not_judged(code: int | None) -> str | None:
    """Why an exit status says nothing of what the command looks at; None if it does."""
    if code is None:
        return "it was ended"
    if code in _NOT_RUN:
        return f"exit status {code}: {_NOT_RUN[code]}"
    number = -code if code < 0 else code - _SIGNALLED
    try:
        return f"it was ended by {signal.Signals(number).name}"
    except ValueError:
        return None


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"
