# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: `preload plan`, `install`, `remove`, from request to outcome."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.action import FileState, WriteFile
from ci_doctor.model.facts.preload import ActionFact, ChangeFact, ChangeFacts, PresetFact
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Case, CaseOutcome, Outcome
from ci_doctor.model.table import Table, row
from ci_doctor.model.verdict import Verdict
from ci_doctor.preload.install import install_each, remove_each
from ci_doctor.preload.interpreters import Interpreters, find_interpreters
from ci_doctor.preload.outcome.refused import refusal_fact, refusal_table, site_dir_of, worst
from ci_doctor.preload.preload_rule import format_rules
from ci_doctor.preload.preset_fit import PresetState, PresetUse
from ci_doctor.preload.presets import require_rules, split_texts
from ci_doctor.preload.result import InstallResult, Refused, Result
from ci_doctor.render.formatting import amount


class _Change(Struct, frozen=True, kw_only=True):
    """The results of one command; `done` and `would` are its verbs: "removed", "would remove"."""

    results: tuple[Result, ...]
    dry_run: bool
    done: str
    would: str

    @property
    def refused(self) -> list[Refused]:
        return [result for result in self.results if isinstance(result, Refused)]

    def state(self, result: InstallResult) -> str:
        if not changing(result):
            return "unchanged"
        if self.refused:
            return "held back"
        return "planned" if self.dry_run else "changed"


def install(
    interpreters: Interpreters,
    rules: Sequence[str],
    *,
    replace: bool = False,
    force: bool = False,
    dry_run: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Outcome:
    """Arm `rules` (texts, or names of presets) in each interpreter, or in none if one is refused.

    They are added to the rules armed before; `replace` arms these only. A preset that does
    not hold for the installed version is left out, unless `force`. `dry_run` changes nothing.
    Raises UsageError for a bad rule, and if there is no interpreter.
    """
    require_rules(rules)
    explicit, names = split_texts(rules)
    pythons = find_interpreters(interpreters, environ)
    presets = PresetUse(names=names, force=force)
    results = install_each(pythons, explicit, dry_run=dry_run, replace=replace, presets=presets)
    return _outcome(_Change(results=results, dry_run=dry_run, done="wrote", would="would write"))


def remove(
    interpreters: Interpreters,
    *,
    trigger: str | None = None,
    dry_run: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Outcome:
    """Remove the shim, or only the rule of `trigger`, from each interpreter.

    Raises UsageError if there is no interpreter.
    """
    pythons = find_interpreters(interpreters, environ)
    results = remove_each(pythons, dry_run=dry_run, trigger=trigger)
    done = "removed"
    would = "would remove"
    # The shim stays if it has rules for other triggers.
    if trigger is not None:
        done = "changed"
        would = "would change"
    return _outcome(_Change(results=results, dry_run=dry_run, done=done, would=would))


def changing(result: Result) -> list[WriteFile]:
    """The actions of a result that change something."""
    actions = result.actions if isinstance(result, InstallResult) else ()
    return [action for action in actions if action.state is not FileState.UNCHANGED]


def _outcome(change: _Change) -> Outcome:
    refused = change.refused
    changed = () if refused else tuple(_changed(change.results))
    verdict, error = worst(refused) if refused else (Verdict.PASS, None)
    if change.dry_run and not refused:
        verdict = None
    tables: list[Table] = []
    cases: list[Case] = []
    facts: list[ChangeFact] = []
    for result in change.results:
        tables.append(_table(change, result))
        cases.append(_case(change, result))
        facts.append(_fact(change, result))
    return Outcome(
        verdict=verdict,
        error=error,
        summary=_summary(change, len(changed)),
        findings=tuple(_findings(change.results)),
        tables=tuple(tables),
        cases=tuple(cases),
        facts=ChangeFacts(targets=tuple(facts), changed=changed, dry_run=change.dry_run),
    )


def _changed(results: Sequence[Result]) -> Iterator[str]:
    for result in results:
        for action in changing(result):
            yield str(action.path)


def _findings(results: Sequence[Result]) -> Iterator[Finding]:
    for result in results:
        yield from result.error.findings if isinstance(result, Refused) else result.findings


def _summary(change: _Change, changed: int) -> str:
    interpreters = amount(len(change.results), "interpreter")
    if change.refused:
        return f"nothing was changed: {len(change.refused)} of {interpreters} refused"
    if not changed:
        return f"nothing to change in {interpreters}"
    verb = change.would if change.dry_run else change.done
    return f"{verb} {amount(changed, 'file')} in {interpreters}"


def _table(change: _Change, result: Result) -> Table:
    if isinstance(result, Refused):
        return refusal_table(result)
    target = result.target
    rows = [
        row(change.state(result), f"Python {target.version_text}"),
        row("site directory", str(target.site_dir)),
    ]
    rows += [row(f"preset {state.name}", state.sentence) for state in result.presets]
    rows += [row("rule", text) for text in format_rules(result.rules)]
    for action in changing(result):
        name = _name(action, target.site_dir)
        # The reasons are for those who decide; afterwards the names are enough.
        rows.append(row(str(action.state), f"{name} ({action.why})" if change.dry_run else name))
    return Table(title=str(target.python), rows=tuple(rows))


def _case(change: _Change, result: Result) -> Case:
    if isinstance(result, Refused):
        name = str(result.python)
        message = result.error.message
        return Case(group="preload", name=name, outcome=CaseOutcome.ERROR, message=message)
    outcome = CaseOutcome.SKIPPED if change.refused else CaseOutcome.PASSED
    return Case(group="preload", name=str(result.target.python), outcome=outcome)


def _fact(change: _Change, result: Result) -> ChangeFact:
    if isinstance(result, Refused):
        return ChangeFact(
            python=str(result.python),
            site_dir=site_dir_of(result),
            state="refused",
            refused=refusal_fact(result.error),
        )
    return ChangeFact(
        python=str(result.target.python),
        version=result.target.version_text,
        site_dir=str(result.target.site_dir),
        state=change.state(result),
        rules=format_rules(result.rules),
        presets=tuple(map(_preset, result.presets)),
        actions=tuple(map(_action, result.actions)),
    )


def _preset(state: PresetState) -> PresetFact:
    return PresetFact(name=state.name, fit=str(state.fit), version=state.version)


def _action(action: WriteFile) -> ActionFact:
    return ActionFact(path=str(action.path), state=str(action.state), why=action.why)


def _name(action: WriteFile, site_dir: Path) -> str:
    if action.path.is_relative_to(site_dir):
        return str(action.path.relative_to(site_dir))
    return str(action.path)
