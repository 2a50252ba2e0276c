# SPDX-License-Identifier: Apache-2.0
"""Pure. From facts to the files that are proposed, each with its whole text and why."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from ci_doctor.model.facts.config import InitFile
from ci_doctor.render.formatting import amount
from ci_doctor.render.safe_text import one_line, printable
from ci_doctor.scaffold.arms import ArmsKind, ProposedArms
from ci_doctor.scaffold.config_file import CONFIG, REQUESTS, SCHEMA, arm_names, config_text
from ci_doctor.scaffold.facts import ScaffoldFacts
from ci_doctor.scaffold.pipelines import (
    PIPELINE,
    PLUGIN,
    PRE_COMMIT,
    WORKFLOW,
    can_be_run_by_github,
    can_be_uploaded,
    is_release,
    pipeline_text,
    pre_commit_entry,
    pre_commit_text,
    requirement,
    upload_line,
    workflow_text,
)
from ci_doctor.scaffold.requests import RequestLine, api_requests
from ci_doctor.scaffold.servers import Api
from ci_doctor.scaffold.sources import LEFT_OUT


class ProposalRequest(Struct, frozen=True, kw_only=True):
    """What a proposal rests on.

    schema: the text of the schema for editors. version: of this ci-doctor.
    codes: the exit code of each verdict. taken: the names that cannot be made, from the top, each with
    what follows it in a sentence.
    """

    facts: ScaffoldFacts
    arms: ProposedArms | None
    schema: str
    version: str
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
    kept = list(_not_written(request))
    for file in _wanted(request):
        if file.path in request.taken:
            kept.append(f"{file.path} {request.taken[file.path]}")
        else:
            files.append(file)
    steps = _steps(request, frozenset(file.path for file in files))
    return Proposal(
        request=request,
        files=tuple(files),
        kept=(*_kept(request), *kept),
        # A name may hold a line end, which would end its step in the list.
        steps=tuple(one_line(printable(step)) for step in steps),
        to_paste=_to_paste(request),
    )


def _wanted(request: ProposalRequest) -> Iterator[InitFile]:
    facts, arms = request.facts, request.arms
    if facts.existing.config is None:
        yield InitFile(path=_here(facts, CONFIG), text=config_text(arms), why=_why(arms))
        yield InitFile(
            path=_here(facts, SCHEMA),
            text=request.schema,
            why="editors complete keys and underline wrong ones; the first line of ci-doctor.toml names it",
        )
    yield from _requests(facts, arms)
    # A step that compares nothing fails in each build.
    if arms is not None or facts.existing.config is not None:
        yield from _pipelines(request)
    if not facts.existing.pre_commit:
        text = pre_commit_text(request.version)
        yield InitFile(path=PRE_COMMIT, text=text, why="`ci-doctor lint` before each commit")


def _pipelines(request: ProposalRequest) -> Iterator[InitFile]:
    facts, arms = request.facts, request.arms
    commands = _step_commands(facts, arms)
    if _wants_step(facts) and can_be_uploaded(facts, commands):
        text = pipeline_text(facts, commands, request.version, request.codes)
        yield InitFile(
            path=PIPELINE, text=text, why="a step that installs ci-doctor and compares the arms"
        )
    if facts.existing.has_workflows and can_be_run_by_github(commands):
        text = workflow_text(
            _command(facts), _install(facts, arms), request.version, needs_gpu=_needs_gpu(arms)
        )
        yield InitFile(
            path=WORKFLOW, text=text, why="a job that installs ci-doctor and compares the arms"
        )


def _wants_step(facts: ScaffoldFacts) -> bool:
    return facts.existing.has_buildkite or not facts.existing.has_workflows


def _not_written(request: ProposalRequest) -> Iterator[str]:
    """Why a pipeline is missing: the name of a directory would be a part of its language."""
    facts, arms = request.facts, request.arms
    if arms is None and facts.existing.config is None:
        return
    commands = _step_commands(facts, arms)
    if _wants_step(facts) and not can_be_uploaded(facts, commands):
        yield f"{PIPELINE} is not proposed: a path in its commands holds what cannot be printed"
    if facts.existing.has_workflows and not can_be_run_by_github(commands):
        yield (
            f"{WORKFLOW} is not proposed: a path in its commands holds "
            "`${{`, which GitHub replaces, or what cannot be printed"
        )


def _here(facts: ScaffoldFacts, name: str) -> str:
    return f"{facts.prefix}/{name}" if facts.prefix else name


def _why(arms: ProposedArms | None) -> str:
    if arms is None:
        return "a skeleton in comments: no command of a server was recognised"
    baseline, candidate = arm_names(arms)
    match arms.kind:
        case ArmsKind.SAME:
            return f"{baseline} against itself, until {candidate} gets your change"
        case ArmsKind.CONNECTOR_OFF:
            return f"{candidate} against the same command without its connector"
        case ArmsKind.TWO_COMMANDS:
            return f"{candidate} against {baseline}, two commands of this repository"


def _requests(facts: ScaffoldFacts, arms: ProposedArms | None) -> Iterator[InitFile]:
    """The requests, also for a configuration that names a file which is not there."""
    if arms is None:
        return
    path = _requests_path(facts)
    lines = request_lines(arms)
    if path is None or not lines:
        return
    text = "".join(_json_line(line) for line in lines)
    yield InitFile(
        path=path, text=text, why=f"{amount(len(lines), 'starter request')}: {_asked(arms)}"
    )


def _json_line(line: RequestLine) -> str:
    return json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"


def _requests_path(facts: ScaffoldFacts) -> str | None:
    """Where the requests belong; None if a configuration names none, or a place that is not ours."""
    config = facts.existing.config
    if config is None:
        return _here(facts, REQUESTS)
    name = facts.existing.requests
    if name is None or config.startswith("/") or not _is_place(name):
        return None
    # Relative to the configuration, which may lie above.
    directory, _, _ = config.rpartition("/")
    parts = [directory, *name.split("/")]
    return "/".join(part for part in parts if part not in ("", "."))


def _is_place(name: str) -> bool:
    """Whether `name` is a file below its directory, where people keep files."""
    *folders, last = name.split("/")
    # Without regard to case, as some file systems look a name up.
    lower = [folder.lower() for folder in folders]
    if not {"", ".."}.isdisjoint(lower) or not LEFT_OUT.isdisjoint(lower):
        return False
    return last.lower() not in ("", ".", "..", ".git") and "\0" not in name


def request_lines(arms: ProposedArms) -> list[RequestLine]:
    """The starter requests for what the arms answer."""
    server = arms.baseline
    return api_requests(server.apis, server.paths, server.model, short=server.short_prompts)


def _asked(arms: ProposedArms) -> str:
    if Api.ROUTES in arms.baseline.apis:
        return "put those of your application in its place"
    return ", ".join(arms.baseline.apis)


def _needs_gpu(arms: ProposedArms | None) -> bool:
    return arms is not None and arms.baseline.is_engine


def _install(facts: ScaffoldFacts, arms: ProposedArms | None) -> tuple[str, ...]:
    """What installs an own application; the image of a GPU machine has its server."""
    if arms is None or arms.baseline.is_engine:
        return ()
    return facts.packaging.install


def _step_commands(facts: ScaffoldFacts, arms: ProposedArms | None) -> list[str]:
    install = _install(facts, arms)
    if not install:
        return [_command(facts)]
    # An agent's own Python often refuses packages (PEP 668).
    return ["python3 -m venv .venv", ". .venv/bin/activate", *install, _command(facts)]


def _command(facts: ScaffoldFacts) -> str:
    if facts.config is None:
        return _COMMAND
    return f"{_COMMAND} --config {shlex.quote(facts.config)}"


def _kept(request: ProposalRequest) -> Iterator[str]:
    config = request.facts.existing.config
    if config is None:
        return
    yield f"{config} exists and is not changed; `ci-doctor config show` prints what it says"
    if request.facts.existing.requests is None:
        yield f"{config} names no requests, so none are proposed: `requests` in [correctness]"


def _to_paste(request: ProposalRequest) -> dict[str, str]:
    existing = request.facts.existing
    if not existing.pre_commit or existing.has_hook:
        return {}
    return {PRE_COMMIT: pre_commit_entry(request.version)}


def _steps(request: ProposalRequest, written: frozenset[str]) -> Iterator[str]:
    facts = request.facts
    yield from _first_steps(request)
    if not is_release(request.version):
        installing = [name for name in (PIPELINE, WORKFLOW, PRE_COMMIT) if name in written]
        if installing:
            here = requirement(request.version)
            yield f"this is no release: name a wheel in place of {here} in {', '.join(installing)}"
    if PIPELINE in written:
        if facts.existing.plugin is None:
            yield f"put the address of the plugin in place of {PLUGIN} in {PIPELINE}"
        yield f"add {PIPELINE} to a build, by a command in one of its steps: {upload_line()}"
    if facts.existing.pre_commit and not facts.existing.has_hook:
        yield f"paste the block below into {PRE_COMMIT}"
    if written and not facts.existing.ignores_reports:
        yield "keep reports out of git: echo ci-doctor-report/ >> .gitignore"
    for script in facts.waiting[:3]:
        yield f"{script} waits by itself: `ci-doctor lint {shlex.quote(script)}` shows what can go wrong"


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
