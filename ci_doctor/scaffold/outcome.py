# SPDX-License-Identifier: Apache-2.0
"""Pure. From what was read and proposed to the report, and to a unified diff as `git apply` takes it."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from ci_doctor.model.facts.config import InitFacts, InitFile, InitServer
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row, text_table
from ci_doctor.model.words import shortened
from ci_doctor.render.safe_text import diff_name
from ci_doctor.scaffold.arms import ProposedArms
from ci_doctor.scaffold.candidates import ServerCandidate
from ci_doctor.scaffold.config_file import SCHEMA, arm_names
from ci_doctor.scaffold.facts import ScaffoldFacts
from ci_doctor.scaffold.propose import Proposal, ProposalRequest
from ci_doctor.scaffold.words import unmarked

_REQUESTS: Final = 4


def whole_diff(files: Sequence[InitFile]) -> str:
    """Every line of every file."""
    return "".join(_new_file(file, [f"{line}\n" for line in _lines(file.text)]) for file in files)


def short_diff(files: Sequence[InitFile], lines: int, width: int) -> str:
    """For a person: long files up to `lines` lines, long lines up to `width`; what is made is named."""
    parts = []
    for file in files:
        text = _lines(file.text)
        # Requests are long lines of one kind.
        most = 0 if file.path.endswith(SCHEMA) else lines
        if file.path.endswith(".jsonl"):
            most = _REQUESTS
        shown = [shortened(line, width - 1) for line in text[:most]]
        part = _new_file(file, [f"{line}\n" for line in shown], count=len(text))
        if len(text) > most:
            part += f"  … {len(text) - most:,} more lines\n"
        parts.append(part)
    return "\n".join(parts)


def _new_file(file: InitFile, lines: Sequence[str], count: int | None = None) -> str:
    """The diff of a file that does not exist yet."""
    count = len(lines) if count is None else count
    old, new = diff_name(f"a/{file.path}"), diff_name(f"b/{file.path}")
    # The first line needs no tab behind a name with spaces.
    first = f"diff --git {old} {new}".replace("\t", "")
    head = f"{first}\nnew file mode 100644\n"
    names = f"--- /dev/null\n+++ {new}\n@@ -0,0 +1,{count} @@\n"
    return head + names + "".join(f"+{line}" for line in lines)


def _lines(text: str) -> list[str]:
    """The lines as git counts them: `splitlines` knows further ends, such as U+2028."""
    return text.removesuffix("\n").split("\n") if text else []


_MOST_SERVERS = 20
_MOST_SHOWN = 3


def outcome_of(proposal: Proposal, why_not: str = "") -> Outcome:
    """The report; nothing is judged, so the exit code is 0. why_not: why nothing was written."""
    return Outcome(
        verdict=None,
        summary=_summary(proposal, why_not),
        tables=tuple(_tables(proposal, why_not)),
        facts=_facts(proposal, why_not),
    )


def _summary(proposal: Proposal, why_not: str) -> str:
    count = len(proposal.files)
    files = "1 file" if count == 1 else f"{count} files"
    if not count:
        return "nothing to write: all files of `ci-doctor init` exist"
    if why_not:
        return f"{files} proposed, none written: {why_not}"
    return f"{files} written; nothing that existed was changed"


def _tables(proposal: Proposal, why_not: str) -> Iterator[Table]:
    yield Table(title="What is here", rows=tuple(_read(proposal.request)))
    if proposal.files:
        title = "Proposed" if why_not else "Written"
        yield Table(title=title, rows=tuple(row(each.path, each.why) for each in proposal.files))
    if proposal.kept:
        yield text_table("Not changed", proposal.kept)
    if proposal.steps and not why_not:
        numbered = [f"{at}. {step}" for at, step in enumerate(proposal.steps, start=1)]
        yield text_table("Next", tuple(numbered))
    for name, block in proposal.to_paste.items():
        yield text_table(f"To paste into {name}, under `repos:`", tuple(block.rstrip().split("\n")))


def _read(request: ProposalRequest) -> Iterator[Row]:
    facts = request.facts
    yield row("files", f"{facts.files:,}{'' if facts.is_whole else ', the first of more'}")
    if facts.packaging.backend:
        yield row("build backend", facts.packaging.backend)
    yield row("servers", _servers(facts))
    if request.arms is not None:
        yield from _arms(request.arms)
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


def _facts(proposal: Proposal, why_not: str) -> InitFacts:
    facts, arms = proposal.request.facts, proposal.request.arms
    files = [structs.replace(each, is_written=not why_not) for each in proposal.files]
    return InitFacts(
        root=facts.root,
        directory=facts.prefix or ".",
        is_repository=facts.is_repository,
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
        arms=arms.kind.value if arms is not None else None,
        files=files,
        kept=list(proposal.kept),
        steps=list(proposal.steps),
        to_paste=proposal.to_paste,
    )


def _server(server: ServerCandidate) -> InitServer:
    return InitServer(
        kind=server.kind,
        origin=server.origin,
        command=[unmarked(word) for word in server.words],
        count=server.count,
        apis=[str(api) for api in server.apis],
        model=server.model,
        connector=server.connector,
        role=server.role,
        variables=list(server.unknown),
    )


def command_line(server: ServerCandidate, width: int) -> str:
    """The command of a server in one line of at most `width` characters."""
    line = " ".join(map(unmarked, server.words))
    return shortened(line, width)
