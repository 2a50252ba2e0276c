# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: `preload plan`, `install`, `remove`, from request to outcome."""

import os
from collections.abc import Mapping, Sequence

from ci_doctor.errors import UsageError
from ci_doctor.model.facts.preload import ChangeFacts, ShimChange
from ci_doctor.model.outcome import Case, CaseOutcome, Outcome
from ci_doctor.model.table import Table, row
from ci_doctor.model.verdict import Verdict
from ci_doctor.preload.install import Result, install_each, remove_each
from ci_doctor.preload.interpreter import Interpreters, Refused, find_interpreters, worst
from ci_doctor.preload.preload_rule import FORM
from ci_doctor.preload.presets import PRESETS, describe_fit, split_texts
from ci_doctor.render.formatting import amount


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
    Raises UsageError for a bad rule or none, and if there is no interpreter.
    """
    if not rules:
        names = ", --preset ".join(sorted(PRESETS))
        raise UsageError(
            "no rule to preload by",
            hint=(
                f"name a preset (--preset {names}), write --rule {FORM}, "
                "or set `preload` in [setup-env]"
            ),
        )
    explicit, presets = split_texts(rules)
    results = install_each(
        find_interpreters(interpreters, environ),
        explicit,
        dry_run=dry_run,
        replace_rules=replace,
        presets=presets,
        force=force,
    )
    return _outcome(results, verb="would write" if dry_run else "wrote", dry_run=dry_run)


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
    results = remove_each(
        find_interpreters(interpreters, environ), dry_run=dry_run, trigger=trigger
    )
    verb = "would remove" if dry_run else "removed"
    # The shim stays if it has rules for other triggers.
    if trigger is not None:
        verb = "would change" if dry_run else "changed"
    return _outcome(results, verb=verb, dry_run=dry_run)


def _outcome(results: Sequence[Result], *, verb: str, dry_run: bool) -> Outcome:
    refused = [result for result in results if isinstance(result, Refused)]
    targets = tuple(map(_target, results))
    done = [each for each in targets if each.state == ("planned" if dry_run else "changed")]
    changed = tuple(action.path for each in done for action in each.changing)
    verdict, error = worst(refused) if refused else (None if dry_run else Verdict.PASS, None)
    interpreters = amount(len(results), "interpreter")
    summary = f"nothing to change in {interpreters}"
    if refused and not changed:
        summary = f"nothing was changed: {len(refused)} of {interpreters} refused"
    elif changed:
        summary = f"{verb} {amount(len(changed), 'file')} in {interpreters}"
        summary += f", {len(refused)} refused" if refused else ""
    return Outcome(
        verdict=verdict,
        error=error,
        summary=summary,
        findings=tuple(
            finding
            for result in results
            for finding in (result.error if isinstance(result, Refused) else result).findings
        ),
        tables=tuple(_table(result, dry_run=dry_run) for result in results),
        cases=tuple(map(_case, results)),
        facts=ChangeFacts(targets=targets, changed=changed, dry_run=dry_run),
    )


def _target(result: Result) -> ShimChange:
    if not isinstance(result, Refused):
        return result.change
    return ShimChange(
        python=str(result.python),
        site_dir=result.site_dir,
        state="refused",
        refused=result.refusal,
    )


def _table(result: Result, *, dry_run: bool) -> Table:
    if isinstance(result, Refused):
        return result.table
    change = result.change
    rows = [
        row(change.state, f"Python {change.version}"),
        row("site directory", change.site_dir),
        *(row(f"preset {preset.name}", describe_fit(preset)) for preset in change.presets),
        *(row("rule", text) for text in change.rules),
    ]
    for action in change.changing:
        name = os.path.relpath(action.path, change.site_dir)
        # The reasons are for those who decide; afterwards the names are enough.
        rows.append(row(str(action.state), f"{name} ({action.why})" if dry_run else name))
    return Table(title=change.python, rows=tuple(rows))


def _case(result: Result) -> Case:
    if isinstance(result, Refused):
        message = result.error.message
        return Case(
            group="preload",
            name=str(result.python),
            outcome=CaseOutcome.ERROR,
            message=message,
        )
    outcome = CaseOutcome.SKIPPED if result.change.state == "held back" else CaseOutcome.PASSED
    return Case(group="preload", name=result.change.python, outcome=outcome)
