# SPDX-License-Identifier: Apache-2.0
"""Acts on files: lint with the stand-in readers, over real directories."""

from pathlib import Path
from typing import Any

from ci_doctor.lint.lint_rule import OWN_RULES
from ci_doctor.lint.lint_run import LintRequest, LintRun
from ci_doctor.lint.outcome import outcome_of
from ci_doctor.lint.run import run
from ci_doctor.model.outcome import Report
from tests.support.builders import a_report
from tests.support.stand_in_readers import IDS, READERS

ALL_IDS = (*IDS, *(rule.id for rule in OWN_RULES))
BAD = "#!/bin/bash\necho evil\n"


def request(directory: Path, *names: str, **changes: Any) -> LintRequest:
    """A request for `names` as typed in `directory`; `changes` are its other fields."""
    return LintRequest(
        names=names,
        cwd=directory,
        rule_ids=lambda: ALL_IDS,
        readers=lambda _tree, _texts: READERS,
        **changes,
    )


def lint(directory: Path, *names: str, **changes: Any) -> LintRun:
    """The run that answers `request`."""
    return run(request(directory, *names, **changes), lambda _step: None)


def reported(ran: LintRun) -> list[tuple[str, str, int]]:
    """Rule, file and line of each violation."""
    return [(each.rule.id, each.place.file, each.place.line) for each in ran.selection.violations]


def lint_report(directory: Path, **changes: Any) -> Report:
    """The report of a run over all of `directory`."""
    from msgspec import to_builtins

    asked = request(directory, **changes)
    outcome = outcome_of(run(asked, lambda _step: None), asked)
    return a_report(
        outcome.verdict,
        command="lint",
        summary=outcome.summary,
        findings=outcome.findings,
        facts=to_builtins(outcome.facts),
        cases=outcome.cases,
        duration_s=0.4,
    )
