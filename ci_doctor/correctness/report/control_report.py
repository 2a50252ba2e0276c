# SPDX-License-Identifier: Apache-2.0
"""What the controls showed, for people and for programs. Pure."""

from collections.abc import Iterator, Sequence

from ci_doctor.correctness import rules
from ci_doctor.correctness.verdict.starts import ArmStart, ControlResult
from ci_doctor.model.facts.correctness import ControlFacts
from ci_doctor.model.finding import Finding
from ci_doctor.model.table import Row, Table, row, text_table

_TITLE = "Control"
_OFF = "off (control = false): nothing shows that the servers read their prompts"


def control_tables(starts: Sequence[ArmStart], *, wanted: bool) -> tuple[Table, ...]:
    """The controls of all starts; one line if none was `wanted`."""
    if not wanted:
        return (text_table(_TITLE, (_OFF,)),)
    rows = tuple(_rows(starts))
    return (Table(title=_TITLE, columns=("what it showed",), rows=rows),) if rows else ()


def _rows(starts: Sequence[ArmStart]) -> Iterator[Row]:
    for start in starts:
        if start.control is not None:
            yield row(start.name, start.control.in_words())


def control_facts(starts: Sequence[ArmStart]) -> tuple[ControlFacts, ...]:
    """The controls of all starts, as facts."""
    facts = []
    for start in starts:
        control = start.control
        if control is not None:
            fact = ControlFacts(
                start=start.name,
                result=control.result.value,
                request=control.request,
                error=control.error,
            )
            facts.append(fact)
    return tuple(facts)


def control_findings(starts: Sequence[ArmStart]) -> Iterator[Finding]:
    """A warning for each start whose control did not show that it reads its prompts."""
    for start in starts:
        control = start.control
        if control is not None and control.result is not ControlResult.CHANGED:
            yield rules.CONTROL.finding(
                f"{start.arm} {start.name}: {control.in_words()}", remedy=rules.CONTROL.remedy
            )
