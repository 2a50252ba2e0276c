# SPDX-License-Identifier: Apache-2.0
"""Pure. What `init` reports: what it read, what it proposes, what was written."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.model.facts.init import InitFacts, InitFile, InitServer
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.shortened import shortened
from ci_doctor.model.table import Row, Table, row, text_table
from ci_doctor.scaffold.listed_files import ListedFiles
from ci_doctor.scaffold.proposing.config_file import arm_names
from ci_doctor.scaffold.proposing.proposed_file import Proposal
from ci_doctor.scaffold.scaffold_facts import ScaffoldFacts
from ci_doctor.scaffold.servers.candidate import ServerCandidate
from ci_doctor.scaffold.servers.choose import ProposedArms

_MOST_SERVERS = 20
_MOST_SHOWN = 3


class InitResult(Struct, frozen=True, kw_only=True):
    """All that came of a run. why_not: why nothing was written; empty if it was."""

    files: ListedFiles
    facts: ScaffoldFacts
    arms: ProposedArms | None
    proposal: Proposal
    why_not: str = ""


def outcome_of(result: InitResult) -> Outcome:
    """The report; nothing is judged, so the exit code is 0."""
    return Outcome(
        verdict=None,
        summary=_summary(result),
        tables=tuple(_tables(result)),
        facts=_facts(result),
    )


def read_table(result: InitResult) -> Table:
    """What was read, a line for each kind of thing."""
    return Table(title="What is here", rows=tuple(_read(result)))


def _summary(result: InitResult) -> str:
    count = len(result.proposal.files)
    files = "1 file" if count == 1 else f"{count} files"
    if not count:
        return "nothing to write: all files of `ci-doctor init` exist"
    if result.why_not:
        return f"{files} proposed, none written: {result.why_not}"
    return f"{files} written; nothing that existed was changed"


def _tables(result: InitResult) -> Iterator[Table]:
    yield read_table(result)
    proposal = result.proposal
    if proposal.files:
        title = "Proposed" if result.why_not else "Written"
        yield Table(title=title, rows=tuple(row(each.path, each.why) for each in proposal.files))
    if proposal.kept:
        yield text_table("Not changed", proposal.kept)
    if proposal.steps and not result.why_not:
        numbered = [f"{at}. {step}" for at, step in enumerate(proposal.steps, start=1)]
        yield text_table("Next", tuple(numbered))
    for name, block in proposal.to_paste.items():
        yield text_table(f"To paste into {name}, under `repos:`", tuple(block.rstrip().split("\n")))


def _read(result: InitResult) -> Iterator[Row]:
    facts = result.facts
    yield row("files", f"{facts.files:,}{'' if facts.is_whole else ', the first of more'}")
    if facts.packaging.backend:
        yield row("build backend", facts.packaging.backend)
    yield row("servers", _servers(facts))
    if result.arms is not None:
        yield from _arms(result.arms)
    for label, names in (
        ("pipelines", facts.pipelines),
        ("workflows", facts.workflows),
        ("tests", facts.tests),
        ("scripts that wait", facts.waiting),
        ("not read (too large)", facts.unread),
    ):
        if names:
            yield row(label, _shortened(names))


def _arms(arms: ProposedArms) -> Iterator[Row]:
    baseline, candidate = arm_names(arms)
    yield row("baseline", f"{baseline}: {arms.baseline.origin}")
    yield row("candidate", f"{candidate}: {arms.kind.value}, {arms.candidate.origin}")
    if arms.baseline.app is not None and arms.baseline.app.hidden:
        yield row(
            "routes left out",
            f"{arms.baseline.app.hidden}: they need or change what the source does not show",
        )


def _servers(facts: ScaffoldFacts) -> str:
    text = f"{len(facts.servers):,} different"
    if not facts.servers:
        text = "none recognised"
    parts = sum(server.role is not None for server in facts.servers)
    if parts:
        text += f"; {parts:,} answer only as a part of several"
    if facts.refused:
        text += f"; {len(facts.refused):,} cannot be started as they stand ({_shortened(facts.refused)})"
    return text


def _shortened(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_SHOWN])
    more = len(names) - _MOST_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown


def _facts(result: InitResult) -> InitFacts:
    facts, proposal = result.facts, result.proposal
    files = []
    for each in proposal.files:
        file = InitFile(path=each.path, why=each.why, text=each.text, is_written=not result.why_not)
        files.append(file)
    return InitFacts(
        root=str(result.files.root),
        directory=facts.prefix or ".",
        is_repository=result.files.is_repository,
        files_listed=facts.files,
        files_unread=list(facts.unread),
        build_backend=facts.packaging.backend,
        pipelines=list(facts.pipelines),
        workflows=list(facts.workflows),
        waiting_scripts=list(facts.waiting),
        tests=list(facts.tests),
        queues=list(facts.queues),
        commands=facts.commands,
        commands_refused=list(facts.refused),
        servers=[_server(each) for each in facts.servers[:_MOST_SERVERS]],
        arms=result.arms.kind.value if result.arms is not None else None,
        files=files,
        kept=list(proposal.kept),
        steps=list(proposal.steps),
        to_paste=proposal.to_paste,
    )


def _server(server: ServerCandidate) -> InitServer:
    return InitServer(
        kind=server.kind,
        origin=server.origin,
        command=[_legible(word) for word in server.words],
        count=server.count,
        apis=[str(api) for api in server.apis],
        model=server.model,
        connector=server.connector,
        role=server.role,
        variables=list(server.unknown),
    )


def command_line(server: ServerCandidate, width: int) -> str:
    """The command of a server in one line of at most `width` characters."""
    line = " ".join(map(_legible, server.words))
    return shortened(line, width)


def _legible(word: str) -> str:
    """A word with its variables as a shell writes them."""
    return word.replace("\ue000", "$").replace("\ue001", "$")
