# SPDX-License-Identifier: Apache-2.0
"""From the result of a probe to the outcome that is reported. Pure."""

import shlex

from ci_doctor.imports import rules
from ci_doctor.imports.probe_result import ProbeResult
from ci_doctor.model.facts.import_race import ImportProbeFacts
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row
from ci_doctor.model.verdict import Verdict

_VERDICTS = {True: Verdict.FAILED, False: Verdict.PASS, None: Verdict.VOID}


def probe_outcome(result: ProbeResult) -> Outcome:
    """What the result means: `failed` if the module is exposed, `void` if it cannot be imported."""
    rows = [row("interpreter", str(result.python))]
    if result.immune:
        rows.append(row("immune", "it looks again after waiting"))
    if result.replaced:
        rows.append(row("replaced themselves", ", ".join(result.replaced)))
    return Outcome(
        verdict=_VERDICTS[result.exposed],
        summary=_summary(result),
        findings=tuple(_findings(result)),
        tables=(Table(title="Probe", rows=tuple(rows)),),
        facts=ImportProbeFacts(
            module=result.module,
            attribute=result.attribute or None,
            python=str(result.python),
            exposed=result.exposed,
            error=result.error or None,
            loaded_before=result.loaded_before,
            replaced=result.replaced,
            immune=result.immune,
            rule=result.rule,
        ),
    )


def _demonstration(result: ProbeResult, rule: str) -> str:
    """A command in which two threads race for the import, and the preload rule decides it."""
    wanted = f"import {result.module}"
    if result.attribute:
        wanted = f"from {result.module} import {result.attribute}"
    program = (
        "import threading; "
        f"thread = threading.Thread(target=__import__, args=({result.module!r},)); "
        f"thread.start(); {wanted}; thread.join()"
    )
    words = ("run", "--preload", rule, "--", str(result.python), "-c", program)
    return f"ci-doctor {shlex.join(words)}"


def _summary(result: ProbeResult) -> str:
    if result.exposed is None:
        return f"{result.target} cannot be imported, so nothing is known: {result.error}"
    if result.exposed:
        return (
            f"{result.target} is exposed: "
            f"its import is lost while another thread imports {result.module}"
        )
    return f"{result.target} is not exposed: {_why_not(result)}"


def _why_not(result: ProbeResult) -> str:
    module = result.module
    if result.loaded_before:
        return f"{module} is loaded at every start of this interpreter"
    if module not in result.replaced:
        return f"{module} does not replace itself in sys.modules"
    if result.immune:
        return f"{module} replaces itself, and this interpreter looks again after waiting"
    what = result.attribute or "it"
    return f"{module} replaces itself, and {what} is the same in what was there before"


def _remedy(result: ProbeResult) -> str:
    if result.rule is None:
        return (
            "import it on the main thread before the first thread starts: this interpreter loads "
            "`threading` at each start before a shim, so no preload rule with that trigger can fire"
        )
    return (
        "import it before the first thread starts. This preloads it, and two threads "
        f"no longer race: `{_demonstration(result, result.rule)}`. Put your own command in place of "
        "that Python"
    )


def _findings(result: ProbeResult) -> list[Finding]:
    if result.exposed:
        received = "the main thread was given another object than the module that stays"
        finding = rules.SELF_REPLACING.finding(
            f"{result.module} replaces itself in sys.modules, "
            "and who waits for its import gets what was there before",
            evidence=(Evidence(excerpt=result.error or received),),
            remedy=_remedy(result),
            severity=Severity.ERROR,
        )
        return [finding]
    if result.exposed is False and result.immune and result.replaced:
        names = ", ".join(result.replaced)
        summary = f"{names} would be exposed in an interpreter without the fix (gh-143650)"
        return [rules.INTERPRETER_IMMUNE.finding(summary)]
    return []
