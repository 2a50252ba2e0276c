# SPDX-License-Identifier: Apache-2.0
"""What proves that an arm's path ran, for people and for programs. Pure."""

from collections.abc import Iterator, Sequence

from msgspec.structs import asdict

from ci_doctor.correctness.results import StartResult
from ci_doctor.model.facts.correctness import ProofFacts
from ci_doctor.model.table import Row, Table, row

_COLUMNS = ("service", "proof", "read")


def proof_tables(results: Sequence[StartResult]) -> tuple[Table, ...]:
    """The readings of every start; no table if no proof was asked for."""
    rows = tuple(_rows(results))
    return (Table(title="Proof", columns=_COLUMNS, rows=rows),) if rows else ()


def _rows(results: Sequence[StartResult]) -> Iterator[Row]:
    for result in results:
        for reading in result.proof:
            yield row(result.start.name, reading.service, reading.subject, reading.in_words())


def proof_facts(results: Sequence[StartResult]) -> tuple[ProofFacts, ...]:
    """The readings of every start, as facts."""
    facts = []
    for result in results:
        for reading in result.proof:
            fact = ProofFacts(start=result.start.name, **asdict(reading))
            facts.append(fact)
    return tuple(facts)
