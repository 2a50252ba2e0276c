# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: one restart for each moment and signal, and what all of them come to."""

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct, structs

from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError
from ci_doctor.model.facts.restart_check import (
    RestartCell,
    RestartCheckFacts,
    RestartSweepFacts,
)
from ci_doctor.model.outcome import (
    Attachment,
    Attempt,
    Case,
    Finding,
    Outcome,
    Table,
    Verdict,
    row,
    seconds,
    worst,
)
from ci_doctor.restart.answers import RestartProgress
from ci_doctor.restart.experiment import run
from ci_doctor.restart.promises import State
from ci_doctor.restart.settings import RestartPlan
from ci_doctor.system import clock
from ci_doctor.system.files.access import write_atomically
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.redaction import Redactor
from ci_doctor.version import tool_version

_FILE = "cell.json"
# What an earlier run has settled; anything else is tried again.
_SETTLED = frozenset({Verdict.PASS, Verdict.FAILED})


class _Stored(Struct, frozen=True, kw_only=True):
    """One restart as it lies in its folder. `key` identifies what was checked."""

    key: str
    cell: RestartCell
    findings: tuple[Finding, ...] = ()
    cases: tuple[Case, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    attachments: tuple[Attachment, ...] = ()


def run_all(
    plans: Sequence[RestartPlan],
    *,
    redactor: Redactor,
    interruption: Interruption,
    resume: bool = False,
    on_progress: Callable[[RestartProgress], None] = lambda _: None,
    on_warning: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Make the restart of each plan, one after the other, and judge them together.

    One plan alone is reported as `run` does. `resume` keeps what an earlier run in the same directory has
    settled. `interruption` is handling signals. Raises UsageError as `run`; what it raises else is the verdict
    of one restart.
    """
    make = functools.partial(
        run, redactor=redactor, interruption=interruption, on_warning=on_warning
    )
    if len(plans) == 1:
        return make(plans[0], on_progress=on_progress)
    stored: list[_Stored] = []
    longest_s = 0.0
    if not resume:
        _forget(plans)
    for plan in plans:
        key = _key(plan)
        each = _read(plan, key) if resume else None
        if each is None and plan.deadline - clock.now() <= longest_s:
            each = _not_begun(plan, key)
        if each is None:
            began = clock.now()

            def note(progress: RestartProgress, title: str = plan.title) -> None:
                on_progress(structs.replace(progress, title=title))

            outcome = _made(functools.partial(make, plan, on_progress=note))
            longest_s = max(longest_s, clock.now() - began)
            if outcome.verdict is None:
                # A signal, or a command that cannot be run: the others would end in the same way.
                return structs.replace(
                    _together(stored), verdict=None, summary=outcome.summary, error=outcome.error
                )
            each = redactor.value(_stored(plan, key, outcome))
        write_atomically(plan.directory / _FILE, msgspec.json.encode(each))
        stored.append(each)
    return _together(stored)


def _made(make: Callable[[], Outcome]) -> Outcome:
    """What the machine prevents is the verdict of one restart; the next may be possible."""
    try:
        return make()
    except InfraError as error:
        return Outcome(verdict=Verdict.INFRA, summary=error.message)


def _forget(plans: Sequence[RestartPlan]) -> None:
    """At once: a run may be cut short, and what an older one has settled is not its own."""
    for plan in plans:
        (plan.directory / _FILE).unlink(missing_ok=True)


def _key(plan: RestartPlan) -> str:
    """What identifies a restart: a run goes on only with what was checked under the same settings."""
    settings = structs.replace(plan.settings, budget="", moment="", signal="")
    specs = [(name, plan.request.specs[name]) for name in plan.order]
    parts = (tool_version(), plan.title, settings, specs, plan.requests)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _read(plan: RestartPlan, key: str) -> _Stored | None:
    """The restart that an earlier run has settled; None if it must be made."""
    try:
        stored = msgspec.json.decode((plan.directory / _FILE).read_bytes(), type=decodable(_Stored))
    except (OSError, msgspec.MsgspecError):
        return None
    if stored.key != key or stored.cell.verdict not in _SETTLED:
        return None
    return structs.replace(stored, cell=structs.replace(stored.cell, kept=True))


def _not_begun(plan: RestartPlan, key: str) -> _Stored:
    summary = "the budget left no time for it"
    return _stored(plan, key, Outcome(verdict=Verdict.INCONCLUSIVE, summary=summary))


def _stored(plan: RestartPlan, key: str, outcome: Outcome) -> _Stored:
    facts = outcome.facts
    assert outcome.verdict is not None  # noqa: S101 - the caller has looked
    title = plan.title
    return _Stored(
        key=key,
        cell=RestartCell(
            moment=plan.moment,
            signal=plan.signal.name,
            verdict=outcome.verdict,
            summary=outcome.summary,
            restart=facts if isinstance(facts, RestartCheckFacts) else None,
        ),
        findings=tuple(
            structs.replace(each, summary=f"{title}: {each.summary}") for each in outcome.findings
        ),
        cases=tuple(structs.replace(each, group=f"{each.group} {title}") for each in outcome.cases),
        attempts=tuple(
            structs.replace(each, name=f"{title}: {each.name}") for each in outcome.attempts
        ),
        attachments=tuple(
            structs.replace(each, title=f"{title}: {each.title}") for each in outcome.attachments
        ),
    )


def _together(stored: Sequence[_Stored]) -> Outcome:
    """The worst verdict, a row for each restart, and everything that was found in one of them."""
    cells = tuple(each.cell for each in stored)
    verdict = Verdict(worst(cell.verdict for cell in cells))
    bad = [cell for cell in cells if cell.verdict is verdict]
    summary = f"all of {len(cells)} restarts kept every promise that was checked"
    if bad and verdict is not Verdict.PASS:
        counts = Counter(cell.verdict.value for cell in cells)
        counted = ", ".join(f"{number} {word}" for word, number in counts.items())
        summary = f"of {len(cells)} restarts {counted}; {_name(bad[0])}: {bad[0].summary}"
    return Outcome(
        verdict=verdict,
        summary=summary,
        findings=tuple(finding for each in stored for finding in each.findings),
        tables=(_table(cells),),
        facts=RestartSweepFacts(cells=cells),
        cases=tuple(case for each in stored for case in each.cases),
        attempts=tuple(attempt for each in stored for attempt in each.attempts),
        attachments=tuple(attachment for each in stored for attachment in each.attachments),
    )


def _name(cell: RestartCell) -> str:
    return f"{cell.moment} {cell.signal}"


def _table(cells: Sequence[RestartCell]) -> Table:
    rows = []
    for cell in cells:
        down_s = None if cell.restart is None else cell.restart.down_s
        promises = {} if cell.restart is None else cell.restart.promises
        broken = [key for key, state in promises.items() if state == State.BROKEN]
        why = ", ".join(broken) or ("" if cell.verdict is Verdict.PASS else cell.summary)
        checked = sum(state != State.UNTESTED for state in promises.values())
        rows.append(row(_name(cell), cell.verdict.value, checked, seconds(down_s), why))
    return Table(
        title="Restarts", columns=("verdict", "checked", "down", "broken"), rows=tuple(rows)
    )
