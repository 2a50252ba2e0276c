# SPDX-License-Identifier: Apache-2.0
"""What came of planning, installing or removing shims, target by target, as a report."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ci_doctor.commands.delivery import deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.model.action import FileState, WriteFile
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import Case, CaseOutcome, Failure
from ci_doctor.model.report import Report
from ci_doctor.model.table import Table, text_table
from ci_doctor.model.verdict import Verdict
from ci_doctor.preload.preload_rule import format_rule
from ci_doctor.preload.result import InstallResult, Refused, Result

# Where several targets are refused, for different reasons: what the user can mend at once, then what is found.
_WORST_FIRST = (ExitCode.USAGE, ExitCode.FAILURE, ExitCode.INFRA)


def report_results(
    invocation: Invocation,
    results: Sequence[Result],
    *,
    done: str,
    would: str,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Deliver what came of it, and return the exit code. `done` and `would` are verbs for the summary: "removed"."""
    refused = [result for result in results if isinstance(result, Refused)]
    held = bool(refused)
    changed = (
        [] if held else [str(action.path) for result in results for action in _changing(result)]
    )
    verb = would if dry_run else done
    common: dict[str, Any] = {
        "findings": tuple(finding for result in results for finding in _findings(result)),
        "tables": tuple(_section(result, dry_run=dry_run, held=held) for result in results),
        "cases": tuple(_case(result, held=held) for result in results),
        "facts": {
            "targets": [_facts(result, dry_run=dry_run, held=held) for result in results],
            "changed": changed,
            "dry_run": dry_run,
        },
    }
    report = _refusal(invocation, results, refused, common) if refused else None
    if report is None:
        summary = f"{verb} {_count(len(changed), 'file')} in {_count(len(results), 'interpreter')}"
        nothing = f"nothing to change in {_count(len(results), 'interpreter')}"
        report = invocation.report(
            verdict=Verdict.PASS, exit_code=0, summary=summary if changed else nothing, **common
        )
    text_to = sys.stderr if refused else sys.stdout
    return deliver(report, as_json=as_json, directory=invocation.report_directory, text_to=text_to)


def exit_code_of(refused: Sequence[Refused]) -> ExitCode:
    """2 where a target is unusable, 1 for what was found in one, 75 where one cannot be asked."""
    codes = {result.error.code for result in refused}
    return next((code for code in _WORST_FIRST if code in codes), ExitCode.USAGE)


def refusal_lines(result: Refused) -> tuple[str, ...]:
    """Why, and what to do."""
    hint = (f"hint: {result.error.hint}",) if result.error.hint else ()
    return (f"refused: {result.error.message}", *hint)


def refusal_facts(result: Refused) -> dict[str, Any]:
    """The facts of a target that was refused."""
    return {
        "python": str(result.python),
        "site_dir": str(result.target.site_dir) if result.target else None,
        "state": "refused",
        "refused": {
            "message": result.error.message,
            "hint": result.error.hint,
            "exit_code": int(result.error.code),
        },
    }


def _refusal(
    invocation: Invocation,
    results: Sequence[Result],
    refused: Sequence[Refused],
    common: dict[str, Any],
) -> Report:
    code = exit_code_of(refused)
    first = next((each for each in refused if each.error.code == code), refused[0])
    summary = (
        f"nothing was changed: {len(refused)} of {_count(len(results), 'interpreter')} refused"
    )
    error = Failure(message=first.error.message, hint=first.error.hint)
    return invocation.report(verdict=None, error=error, exit_code=code, summary=summary, **common)


def _section(result: Result, *, dry_run: bool, held: bool) -> Table:
    if isinstance(result, Refused):
        return text_table(title=str(result.python), lines=refusal_lines(result))
    target = result.target
    state = _state(result, dry_run=dry_run, held=held)
    lines = [
        f"{state}: Python {'.'.join(map(str, target.version))}",
        f"site directory {target.site_dir}",
    ]
    lines += [f"rule {format_rule(rule)}" for rule in result.rules]
    # The reasons are for those who decide; afterwards the names are enough.
    lines += [
        f"{action.state:<8} {_name(action, target.site_dir)}{f'  ({action.why})' if dry_run else ''}"
        for action in _changing(result)
    ]
    return text_table(title=str(target.python), lines=tuple(lines))


def _case(result: Result, *, held: bool) -> Case:
    if isinstance(result, Refused):
        return Case(
            group="preload",
            name=str(result.python),
            outcome=CaseOutcome.ERROR,
            message=result.error.message,
        )
    outcome = CaseOutcome.SKIPPED if held else CaseOutcome.PASSED
    return Case(group="preload", name=str(result.target.python), outcome=outcome)


def _facts(result: Result, *, dry_run: bool, held: bool) -> dict[str, Any]:
    if isinstance(result, Refused):
        return refusal_facts(result)
    return {
        "python": str(result.target.python),
        "version": ".".join(map(str, result.target.version)),
        "site_dir": str(result.target.site_dir),
        "state": _state(result, dry_run=dry_run, held=held),
        "rules": [format_rule(rule) for rule in result.rules],
        "actions": [
            {"path": str(action.path), "state": str(action.state), "why": action.why}
            for action in result.actions
        ],
        "refused": None,
    }


def _state(result: InstallResult, *, dry_run: bool, held: bool) -> str:
    if not _changing(result):
        return "unchanged"
    if held:
        return "held back"
    return "planned" if dry_run else "changed"


def _changing(result: Result) -> list[WriteFile]:
    actions = result.actions if isinstance(result, InstallResult) else ()
    return [action for action in actions if action.state is not FileState.UNCHANGED]


def _findings(result: Result) -> tuple[Any, ...]:
    return result.error.findings if isinstance(result, Refused) else result.findings


def _name(action: WriteFile, site_dir: Path) -> str:
    return (
        str(action.path.relative_to(site_dir))
        if action.path.is_relative_to(site_dir)
        else str(action.path)
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
