# SPDX-License-Identifier: Apache-2.0
"""What proves that an arm's path ran, and what it shared with the other, for people and programs. Pure."""

from collections.abc import Iterator, Sequence

from msgspec.structs import asdict

from ci_doctor.correctness.results import StartResult
from ci_doctor.model.facts.correctness import ProofFacts, SharedFacts, SharedReadFacts
from ci_doctor.model.table import Row, Table, row

# Of the files that changed, so many are named; the facts have more.
_NAMED = 3
_SHARED_TITLE = "Shared files"
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


def shared_flaw(results: Sequence[StartResult]) -> str | None:
    """Why equal answers show nothing: a start read what the other arm wrote; None if none did."""
    for result in results:
        for read in result.shared.read:
            return (
                f"{result.start.name} read {read.path}, which changed while {read.writer} ran: "
                "one arm's answers may come from the other"
            )
    return None


def unended_flaw(results: Sequence[StartResult]) -> str | None:
    """Why equal answers may be cut, or were not compared in all that was asked for; None if they were."""
    for result in results:
        looks = result.start.looks
        if looks.unended:
            return (
                f"{looks.unended} of {looks.answered} answers of {result.start.name} have no "
                "`finish_reason`: one that was cut looks the same"
            )
        if looks.unscored:
            return (
                f"{looks.unscored} of {looks.answered} answers of {result.start.name} lack the "
                "log-probabilities that were asked for: none was compared"
            )
        if looks.broken_off:
            request, reason = next(iter(looks.broken_off.items()))
            return (
                f"{len(looks.broken_off)} of {looks.answered} answers of {result.start.name} were taken "
                f'away or given up ({request}: finish_reason "{reason}"): mend the server or its filter, '
                "or leave these requests out"
            )
        if looks.contradictions:
            request, reason = next(iter(looks.contradictions.items()))
            return (
                f"{len(looks.contradictions)} of {looks.answered} answers of {result.start.name} "
                f"contradict themselves ({request}: {reason}): mend what builds them, the server or a proxy"
            )
        if looks.one_number is not None:
            return (
                f"every log-probability of {result.start.name} is exactly {looks.one_number:g}: no model "
                "is equally sure of every token, so let the server give raw log-probabilities"
            )
    return None


def shared_tables(results: Sequence[StartResult]) -> tuple[Table, ...]:
    """What starts read of the other arm, and one line for all that changed; no table without any."""
    rows = (*_read_rows(results), *_written_rows(results))
    return (Table(title=_SHARED_TITLE, columns=("files",), rows=rows),) if rows else ()


def _read_rows(results: Sequence[StartResult]) -> Iterator[Row]:
    unseen: dict[str, list[str]] = {}
    for result in results:
        for read in result.shared.read:
            sentence = f"read {read.path}, which changed while {read.writer} ran"
            yield row(result.start.name, sentence)
        if result.shared.unseen:
            unseen.setdefault(result.shared.unseen, []).append(result.start.name)
    for reason, names in unseen.items():
        yield row(" ".join(names), f"may have read more: {reason}")


def _written_rows(results: Sequence[StartResult]) -> Iterator[Row]:
    paths = tuple(dict.fromkeys(path for each in results for path in each.shared.written))
    # A start names some of its files.
    count = max([len(paths), *(each.shared.count for each in results)])
    if count:
        named = ", ".join(paths[:_NAMED])
        more = f", and {count - _NAMED} more" if count > _NAMED else ""
        yield row("all", f"changed while starts ran: {named}{more}")


def shared_facts(results: Sequence[StartResult]) -> tuple[SharedFacts, ...]:
    """The same for programs."""
    facts = []
    for result in results:
        shared = result.shared
        if shared.count or shared.read or shared.unseen:
            reads = [SharedReadFacts(path=each.path, writer=each.writer) for each in shared.read]
            fact = SharedFacts(
                start=result.start.name,
                count=shared.count,
                written=shared.written,
                read=tuple(reads),
                unseen=shared.unseen or None,
            )
            facts.append(fact)
    return tuple(facts)
