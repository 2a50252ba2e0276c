# SPDX-License-Identifier: Apache-2.0
"""Pure. From facts to the files that are proposed, each with its whole text and why; and from these to the report."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from ci_doctor.model.facts.preparing import InitFacts, InitFile, InitServer
from ci_doctor.model.outcome import Outcome, Row, Table, row, text_table
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import amount, diff_name, one_line, printable
from ci_doctor.scaffold.arms import ArmsKind, ProposedArms, ScaffoldFacts, ToolOrigin
from ci_doctor.scaffold.candidates import ServerCandidate
from ci_doctor.scaffold.servers import Api
from ci_doctor.scaffold.texts import (
    CONFIG,
    OWN_FOLDER,
    OWN_IGNORE,
    OWN_IGNORE_TEXT,
    OWN_PRE_COMMIT,
    PIPELINE,
    PRE_COMMIT,
    REQUESTS,
    SCHEMA,
    WORKFLOW,
    RequestLine,
    api_requests,
    arm_names,
    config_text,
    own_pre_commit_text,
    pipeline_text,
    pre_commit_entry,
    pre_commit_text,
    upload_line,
    workflow_text,
)
from ci_doctor.scaffold.words import unmarked

# From facts to the files that are proposed, each with its whole text and why.


class ProposalRequest(Struct, frozen=True, kw_only=True):
    """What a proposal rests on.

    schema: the text of the schema for editors. origin: where this ci-doctor can be installed from.
    codes: the exit code of each verdict. taken: the names that cannot be made, from the top, each with
    what follows it in a sentence.
    """

    facts: ScaffoldFacts
    arms: ProposedArms | None
    schema: str
    origin: ToolOrigin
    codes: Mapping[str, int]
    taken: Mapping[str, str] = {}


class Proposal(Struct, frozen=True, kw_only=True):
    """What is proposed for a request, and what is not.

    kept: what exists and is not changed, each with what to do about it. steps: what is left to do by
    hand, in the order in which to do it. to_paste: a block for a file that exists, by the name of the file.
    """

    request: ProposalRequest
    files: tuple[InitFile, ...] = ()
    kept: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    to_paste: dict[str, str] = {}


_COMMAND: Final = "ci-doctor correctness"


def propose(request: ProposalRequest) -> Proposal:
    """The files that are missing; what exists is named and not changed."""
    files = []
    kept = []
    if request.facts.existing.config is not None:
        config = request.facts.existing.config
        kept.append(
            f"{config} exists and is not changed; `ci-doctor config show` prints what it says"
        )
    for each in _wanted(request):
        if isinstance(each, str):
            kept.append(each)
        elif each.path in request.taken:
            kept.append(f"{each.path} {request.taken[each.path]}")
        else:
            files.append(each)
    steps = _steps(request, frozenset(file.path for file in files))
    return Proposal(
        request=request,
        files=tuple(files),
        kept=tuple(kept),
        # A name may hold a line end, which would end its step in the list.
        steps=tuple(one_line(printable(step)) for step in steps),
        to_paste=_to_paste(request),
    )


def _wanted(request: ProposalRequest) -> Iterator[InitFile | str]:
    """The files of a whole proposal; for one that cannot be, a sentence."""
    facts, arms = request.facts, request.arms
    if facts.existing.config is None:
        yield InitFile(path=_here(facts, CONFIG), text=config_text(arms), why=_why(arms))
        yield InitFile(
            path=_here(facts, SCHEMA),
            text=request.schema,
            why="editors complete keys and underline wrong ones; the first line of ci-doctor.toml names it",
        )
        if arms is not None:
            lines = request_lines(arms)
            text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
            why = f"{amount(len(lines), 'starter request')}: {_asked(arms)}"
            yield InitFile(path=_here(facts, REQUESTS), text=text, why=why)
    # A step that compares nothing fails in each build.
    if arms is not None or facts.existing.config is not None:
        yield from _pipelines(request)
    yield from _hooks(request)


def _hooks(request: ProposalRequest) -> Iterator[InitFile]:
    existing, origin = request.facts.existing, request.origin
    why = "`ci-doctor lint` before each commit"
    if origin.requirement is not None:
        if not existing.pre_commit:
            text = pre_commit_text(origin.requirement)
            yield InitFile(path=PRE_COMMIT, text=text, why=why)
    elif not existing.has_hook:
        text = own_pre_commit_text(origin.program)
        yield InitFile(path=OWN_PRE_COMMIT, text=text, why=f"{why}, on this machine alone")
        why = f"git leaves {OWN_FOLDER} out: it names paths of this machine"
        yield InitFile(path=OWN_IGNORE, text=OWN_IGNORE_TEXT, why=why)


def _pipelines(request: ProposalRequest) -> Iterator[InitFile | str]:
    """A step and a workflow; why one is missing."""
    facts, arms, origin = request.facts, request.arms, request.origin
    wanted = []
    if facts.existing.has_buildkite or not facts.existing.has_workflows:
        wanted.append(PIPELINE)
    if facts.existing.has_workflows:
        wanted.append(WORKFLOW)
    if origin.requirement is None:
        are = "is" if len(wanted) == 1 else "are"
        yield f"{' and '.join(wanted)} {are} not proposed: this ci-doctor {origin.missing}"
        return
    # An agent's own Python often refuses packages (PEP 668).
    venv = ["python3 -m venv .venv", ". .venv/bin/activate"]
    install = _install(facts, arms)
    commands = [*venv, *install, _command(facts)] if install else [_command(facts)]
    if PIPELINE in wanted:
        yield _pipeline(request, commands, origin.requirement)
    if WORKFLOW in wanted:
        yield _workflow(request, install, origin.requirement)


def _pipeline(
    request: ProposalRequest, commands: Sequence[str], requirement: str
) -> InitFile | str:
    facts, arms = request.facts, request.arms
    vendored = facts.existing.plugin
    plugin = f"./{vendored}" if vendored is not None else request.origin.plugin
    if plugin is None:
        return (
            f"{PIPELINE} is not proposed: a wheel does not bring the plugin; "
            "install ci-doctor from a repository, or copy buildkite_plugins/ci-doctor into this one"
        )
    # The name of a directory would be a part of the file's language.
    if not all(text.isprintable() for text in (*commands, plugin)):
        return f"{PIPELINE} is not proposed: a path in its commands holds what cannot be printed"
    step = None if arms is None else facts.steps.get(arms.baseline.origin)
    text = pipeline_text(facts, commands, step, plugin, requirement, request.codes)
    why = "a step that installs ci-doctor and compares the arms"
    return InitFile(path=PIPELINE, text=text, why=why)


def _workflow(request: ProposalRequest, install: Sequence[str], requirement: str) -> InitFile | str:
    command, arms = _command(request.facts), request.arms
    words = (*install, command)
    # GitHub puts the value of an expression into a script before a shell reads it, also within quotes:
    # https://docs.github.com/en/actions/reference/security/secure-use
    if any("${{" in each or not each.isprintable() for each in words):
        return (
            f"{WORKFLOW} is not proposed: a path in its commands holds "
            "`${{`, which GitHub replaces, or what cannot be printed"
        )
    needs_gpu = arms is not None and arms.baseline.is_engine
    text = workflow_text(command, install, requirement, needs_gpu=needs_gpu)
    why = "a job that installs ci-doctor and compares the arms"
    return InitFile(path=WORKFLOW, text=text, why=why)


def _here(facts: ScaffoldFacts, name: str) -> str:
    return f"{facts.prefix}/{name}" if facts.prefix else name


def _why(arms: ProposedArms | None) -> str:
    if arms is None:
        return "a skeleton in comments: no command of a server that answers was recognised"
    baseline, candidate = arm_names(arms)
    match arms.kind:
        case ArmsKind.SAME:
            return f"{baseline} against itself, until {candidate} gets your change"
        case ArmsKind.CONNECTOR_OFF:
            return f"{candidate} against the same command without its connector"
        case ArmsKind.TWO_COMMANDS:
            return f"{candidate} against {baseline}, two commands of this repository"


def request_lines(arms: ProposedArms) -> list[RequestLine]:
    """The starter requests for what the arms answer."""
    server = arms.baseline
    return api_requests(server.apis, server.paths, server.model, short=server.short_prompts)


def _asked(arms: ProposedArms) -> str:
    if Api.ROUTES in arms.baseline.apis:
        return "put those of your application in its place"
    return ", ".join(arms.baseline.apis)


def _install(facts: ScaffoldFacts, arms: ProposedArms | None) -> list[str]:
    """What installs an own application; the image of a GPU machine has its server."""
    if arms is None or arms.baseline.is_engine or facts.install is None:
        return []
    return [facts.install]


def _command(facts: ScaffoldFacts) -> str:
    if facts.config is None:
        return _COMMAND
    return f"{_COMMAND} --config {shlex.quote(facts.config)}"


def _to_paste(request: ProposalRequest) -> dict[str, str]:
    existing, requirement = request.facts.existing, request.origin.requirement
    if not _misses_hook(request) or existing.hook_place.indent is None or requirement is None:
        return {}
    return {PRE_COMMIT: pre_commit_entry(requirement, existing.hook_place)}


def _misses_hook(request: ProposalRequest) -> bool:
    existing = request.facts.existing
    is_known = request.origin.requirement is not None
    return existing.pre_commit and not existing.has_hook and is_known


def _steps(request: ProposalRequest, written: frozenset[str]) -> Iterator[str]:
    facts = request.facts
    yield from _first_steps(request)
    if PIPELINE in written:
        yield f"add {PIPELINE} to a build, by a command in one of its steps: {upload_line()}"
    if OWN_PRE_COMMIT in written:
        yield f"run the hook: pre-commit run -a -c {OWN_PRE_COMMIT}"
    if request.origin.requirement is None:
        yield (
            "for a step and a hook that others have, too: install ci-doctor by "
            "`pip install 'git+ADDRESS@COMMIT'`, and run `ci-doctor init` again"
        )
    place = facts.existing.hook_place
    if _misses_hook(request) and place.indent is None:
        yield f"for the hook, see {PRE_COMMIT}, {place.words}, and run `ci-doctor init` again"
    elif _misses_hook(request):
        yield f"paste the block below into {PRE_COMMIT}, {place.words}"
    if written and not facts.existing.ignores_reports:
        yield "keep reports out of git: echo 'ci-doctor-report*/' >> .gitignore"


def _first_steps(request: ProposalRequest) -> Iterator[str]:
    """How to run it once, and where a change goes."""
    facts, arms = request.facts, request.arms
    if arms is None and facts.existing.config is None:
        yield f"put the command of your server into {_here(facts, CONFIG)}, then write its requests"
        yield "run `ci-doctor init` again: it adds a step for your pipeline"
    elif arms is None or facts.existing.config is not None:
        yield f"run it: {_command(facts)}"
    else:
        # From where the person stands: the configuration is beside it.
        yield f"run it: {_COMMAND}"
        if arms.kind is ArmsKind.SAME:
            baseline, candidate = arm_names(arms)
            yield f"then put your change into the command of [services.{candidate}]"
            yield (
                f"or, if your change is in the code, give [services.{baseline}] the line "
                '`cwd = "CHECKOUT OF MAIN"`'
            )


# From what was read and proposed to the report, and to a unified diff as `git apply` takes it.

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
            part += f"  … {amount(len(text) - most, 'more line')}\n"
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
_MOST_LEFT_OUT = 10


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
        yield text_table("Not written", proposal.kept)
    left_out = proposal.request.facts.left_out
    if left_out:
        lines = [f"{each.origin}: {each.why}" for each in left_out[:_MOST_LEFT_OUT]]
        more = len(left_out) - len(lines)
        if more > 0:
            lines.append(f"{more:,} more, which `ci-doctor init --json` names")
        yield text_table("Servers left out", tuple(lines))
    if proposal.steps and not why_not:
        numbered = [f"{at}. {step}" for at, step in enumerate(proposal.steps, start=1)]
        yield text_table("Next", tuple(numbered))
    place = proposal.request.facts.existing.hook_place.words
    for name, block in proposal.to_paste.items():
        rows = text_table("", tuple(block.rstrip().split("\n"))).rows
        yield Table(title=f"To paste into {name}, {place}", rows=rows, is_verbatim=True)


def _read(request: ProposalRequest) -> Iterator[Row]:
    facts = request.facts
    yield row("files", f"{facts.files:,}{'' if facts.is_whole else ', the first of more'}")
    yield row(
        "servers", f"{len(facts.servers):,} different" if facts.servers else "none recognised"
    )
    if request.arms is not None:
        yield from _arms(request.arms)
    parts = [each.origin for each in facts.servers if each.role is not None]
    for label, names in (
        ("other servers", _others(facts, request.arms)),
        ("parts of several", parts),
        ("pipelines", facts.pipelines),
        ("workflows", facts.workflows),
        ("not read (too large)", facts.unread),
    ):
        if names:
            yield row(label, _shortened(names))


def _arms(arms: ProposedArms) -> Iterator[Row]:
    baseline, candidate = arm_names(arms)
    yield row("baseline", f"{baseline}: {arms.baseline.origin}")
    yield row("candidate", f"{candidate}: {arms.kind.value}, {arms.candidate.origin}")


def _others(facts: ScaffoldFacts, arms: ProposedArms | None) -> list[str]:
    """The whole servers that are no arm, and no store of one."""
    taken = {
        each.origin
        for each in ((arms.baseline, arms.candidate, arms.store) if arms is not None else ())
        if each is not None
    }
    return [each.origin for each in facts.servers if each.role is None and each.origin not in taken]


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
        files_unread=list(facts.unread),
        pipelines=list(facts.pipelines),
        workflows=list(facts.workflows),
        queues=list(facts.queues),
        commands=facts.commands,
        servers=[_server(each) for each in facts.servers[:_MOST_SERVERS]],
        left_out=list(facts.left_out),
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
