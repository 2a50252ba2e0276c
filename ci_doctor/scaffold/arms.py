# SPDX-License-Identifier: Apache-2.0
"""Pure. Which of a repository's servers are proposed as the two arms; and all that `init` knows of a repository, as one value."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.model.facts.preparing import InitLeftOut
from ci_doctor.scaffold.agents import PipelineStep
from ci_doctor.scaffold.candidates import PORT, ServerCandidate, without_connector
from ci_doctor.scaffold.servers import KV_STORE, ScriptPlace
from ci_doctor.scaffold.words import unknown_variables

_PLACES: Final = list(ScriptPlace)
_SCRIPT: Final = _PLACES.index(ScriptPlace.SCRIPT)
# What an image runs may need all of that image; what needs variables, the job must bring.
_CONTAINER: Final = 3
_UNKNOWN: Final = 2
_STORE_PORT: Final = ":{kv.port}"


class ArmsKind(StrEnum):
    """What the two arms differ by."""

    # Two commands of the repository, one with a KV connector and one without.
    TWO_COMMANDS = "two commands"
    # One command with a KV connector, and the same without.
    CONNECTOR_OFF = "connector left out"
    # One command twice: a run shows whether the server repeats itself.
    SAME = "the same command"


class ProposedArms(Struct, frozen=True, kw_only=True):
    """`store` is started before the candidate, which keeps its keys and values there.

    also: words in which two commands differ beside the connector.
    """

    baseline: ServerCandidate
    candidate: ServerCandidate
    kind: ArmsKind
    store: ServerCandidate | None = None
    also: tuple[str, ...] = ()


def ranked(candidates: Iterable[ServerCandidate]) -> tuple[ServerCandidate, ...]:
    """Each different server once, with the number of its commands, the likeliest first."""
    by_words: dict[tuple[object, ...], ServerCandidate] = {}
    for each in candidates:
        key = (each.words, tuple(each.env.items()), each.cwd)
        known = by_words.get(key)
        if known is None:
            by_words[key] = each
            continue
        first = min(known, each, key=_rank)
        by_words[key] = replace(first, count=known.count + 1)
    return tuple(sorted(by_words.values(), key=_rank))


def comparable(servers: Sequence[ServerCandidate]) -> list[ServerCandidate]:
    """Those that answer by themselves."""
    return [each for each in servers if each.role is None and each.apis]


def choose_arms(servers: Sequence[ServerCandidate]) -> ProposedArms | None:
    """The arms for the likeliest server; None without any."""
    whole = comparable(servers)
    first = next(iter(whole), None)
    if first is None:
        return None
    for connected in whole:
        # A pair says more than a simple server, unless only a page of documentation has it.
        if connected.connector is None or _tier(connected) > max(_tier(first), _SCRIPT):
            continue
        # The server of the same model without a connector that differs least.
        kin = [
            each
            for each in whole
            if each.connector is None
            and (each.kind, each.model) == (connected.kind, connected.model)
        ]
        plain = min(kin, key=lambda each: len(_differing(each, connected)), default=None)
        if plain is not None:
            return chosen_arms(servers, plain, connected)
    if first.connector is None:
        twin = _twin(first, whole)
        if twin is not None:
            return chosen_arms(servers, *twin)
        return ProposedArms(baseline=first, candidate=first, kind=ArmsKind.SAME)
    bare = without_connector(first)
    return replace(chosen_arms(servers, bare, first), kind=ArmsKind.CONNECTOR_OFF, also=())


# Where a server listens and writes, and which device it takes: what two copies of one server differ by.
_OWN_PLACE: Final = re.compile(
    r"(?i)(?:^|[-_])(?:ports?|hosts?|addr|address|uds|devices?|logs?|log[-_]?(?:file|dir|path)|pid[-_]?file|name)$"
)
# Parts of one service that answer together.
_OWN_PART: Final = re.compile(r"(?i)(?:^|[-_])(?:role|rank|stage|shard|worker|node)(?:$|[-_])")
_MOST_DIFFERENT: Final = 3


def _twin(
    first: ServerCandidate, whole: Sequence[ServerCandidate]
) -> tuple[ServerCandidate, ServerCandidate] | None:
    """The plainer and the other one of two commands of one script that differ by a few settings."""
    program = first.words[: first.command.arguments]
    kin = [
        (len(names), abs(each.command.line - first.command.line), each)
        for each in whole
        if each is not first
        and (each.kind, each.model, each.cwd) == (first.kind, first.model, first.cwd)
        and (each.command.file, each.connector) == (first.command.file, None)
        and each.words[: each.command.arguments] == program
        and 0 < len(names := _different_settings(first, each)) <= _MOST_DIFFERENT
        and not any(map(_OWN_PART.search, names))
    ]
    if not kin:
        return None
    other = min(kin, key=lambda each: each[:2])[2]
    size = {id(each): len(each.words) + len(each.env) for each in (first, other)}
    one, two = sorted((first, other), key=lambda each: (size[id(each)], each.command.line))
    return one, two


def _different_settings(one: ServerCandidate, other: ServerCandidate) -> set[str]:
    """The options and variables in which two commands differ, without those of a copy's own place."""
    left, right = _settings(one), _settings(other)
    return {
        name
        for name in left.keys() | right.keys()
        if left.get(name) != right.get(name) and not _OWN_PLACE.search(name)
    }


def _settings(server: ServerCandidate) -> dict[str, str]:
    """The values of variables and options by their names; what follows an option is its value."""
    made = dict(server.env)
    name = ""
    for word in server.words[server.command.arguments :]:
        if word.startswith("-"):
            name, _, value = word.partition("=")
            made[name] = value
        else:
            made[name] = f"{made.get(name, '')} {word}"
    return made


def _tier(server: ServerCandidate) -> int:
    return _PLACES.index(server.command.place)


def chosen_arms(
    servers: Sequence[ServerCandidate], one: ServerCandidate, other: ServerCandidate
) -> ProposedArms:
    """The arms that a person has chosen; `one` and `other` may be the same server."""
    if one is other:
        return ProposedArms(baseline=one, candidate=one, kind=ArmsKind.SAME)
    store = _store(other, servers) if other.connector is not None else None
    linked = _linked(other, store)
    if store is not None and linked is other:
        # Its address stands in a file of settings.
        store = _at_own_port(store)
    return ProposedArms(
        baseline=one,
        candidate=linked,
        kind=ArmsKind.TWO_COMMANDS,
        store=store,
        also=_differing(one, other),
    )


def _differing(one: ServerCandidate, other: ServerCandidate) -> tuple[str, ...]:
    """The words and variables that only one of two commands has, those of a connector left out."""
    sides = []
    for server in (one, other):
        bare = without_connector(server)
        words = [word for word in bare.words[server.command.arguments :] if word != PORT]
        sides.append([*words, *(f"{name}={value}" for name, value in bare.env.items())])
    left, right = sides
    only = [word for word in left if word not in right] + [
        word for word in right if word not in left
    ]
    # Two ways to write the same: `serve MODEL` and `--model MODEL`.
    return tuple(word for word in only if word not in {"--model", "--model-path"})


def _rank(server: ServerCandidate) -> tuple[int, int, int, str, int]:
    place = _tier(server)
    if server.command.in_container:
        place += _CONTAINER
    if server.unknown:
        place += _UNKNOWN
    # The simplest one to begin with; a large repository also starts what takes eight GPUs.
    return place, len(server.words), -server.count, server.command.file, server.command.line


def _store(server: ServerCandidate, servers: Sequence[ServerCandidate]) -> ServerCandidate | None:
    """The store of keys and values that the same file starts."""
    for each in servers:
        if each.kind == KV_STORE and each.command.file == server.command.file:
            return each
    return None


def _own_port(store: ServerCandidate) -> str | None:
    """The port that a store has in the repository."""
    for written, made in zip(
        store.command.words[store.command.arguments :],
        store.words[store.command.arguments :],
        strict=False,
    ):
        if PORT in made:
            port = written.rpartition("=")[2]
            return None if unknown_variables([port]) or not port.isdigit() else port
    return None


def _linked(server: ServerCandidate, store: ServerCandidate | None) -> ServerCandidate:
    """The server with the store's free port wherever its command or environment names the store's own."""
    port = _own_port(store) if store is not None else None
    if port is None:
        return server
    # `:655` is no part of `:6550`.
    own = re.compile(rf":{port}(?!\d)")
    words = tuple(own.sub(_STORE_PORT, word) for word in server.words)
    env = {name: own.sub(_STORE_PORT, value) for name, value in server.env.items()}
    if words == server.words and env == server.env:
        return server
    return replace(server, words=words, env=env)


def _at_own_port(store: ServerCandidate) -> ServerCandidate:
    """The store at the port that the repository gives it, which a file that nobody reads here may name."""
    port = _own_port(store)
    if port is None:
        return store
    words = tuple(word.replace(PORT, port) for word in store.words)
    return replace(store, words=words, ready=store.ready.replace(PORT, port))


# What `init` knows of a repository, as one value.


class HookPlace(Struct, frozen=True, kw_only=True):
    """Where a file of pre-commit takes a hook of ours.

    words: the place. indent: what stands before the dash of an item of `repos`; None if no block fits, and
    `words` say why. has_list: whether `repos:` stands there.
    """

    words: str = "after the last item of `repos`"
    indent: str | None = "  "
    has_list: bool = True


class ExistingFiles(Struct, frozen=True, kw_only=True):
    """What is there already, relative to the top of the repository, and is never changed.

    config: the configuration that ci-doctor reads. plugin: the folder of a vendored plugin.
    has_hook: whether the file of pre-commit has our hook. hook_place: where it takes it. ignores_reports: whether git does.
    """

    config: str | None = None
    pre_commit: bool = False
    has_hook: bool = False
    hook_place: HookPlace = HookPlace()
    ignores_reports: bool = False
    plugin: str | None = None
    has_buildkite: bool = False
    has_workflows: bool = False


class ToolOrigin(Struct, frozen=True, kw_only=True):
    """Where ci-doctor comes from.

    requirement: what pip, pre-commit and the option `install` of the plugin take on every machine, pinned by
    a commit or a digest; None if nothing is known that other machines have, and `missing` says why after "this ci-doctor". plugin:
    the plugin's source in a pipeline; None if only a wheel is known. program: the words that start this very
    installation.
    """

    requirement: str | None = None
    plugin: str | None = None
    missing: str = ""
    program: tuple[str, ...] = ("ci-doctor",)


class ScaffoldFacts(Struct, frozen=True, kw_only=True):
    """All that was read.

    root: the top of the repository, or the directory itself without one. servers: the likeliest first. commands: how many commands of servers were read. left_out: those that
    cannot be started as they stand. queues: the agents' queues that pipelines name. steps: the step that runs a
    server, by the origin of the server. install: the
    shell command that installs what the server needs, from the top; None if nothing says it. unread: files beyond a limit.
    prefix: the directory of the configuration, from the top of the repository; empty for the top.
    """

    root: str = ""
    is_repository: bool = False
    servers: tuple[ServerCandidate, ...] = ()
    commands: int = 0
    left_out: tuple[InitLeftOut, ...] = ()
    pipelines: tuple[str, ...] = ()
    workflows: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    steps: Mapping[str, PipelineStep] = {}
    install: str | None = None
    existing: ExistingFiles = ExistingFiles()
    files: int = 0
    unread: tuple[str, ...] = ()
    is_whole: bool = True
    prefix: str = ""

    @property
    def config(self) -> str | None:
        """What a step must name as its configuration; None if ci-doctor looks there by itself."""
        proposed = f"{self.prefix}/ci-doctor.toml" if self.prefix else "ci-doctor.toml"
        path = self.existing.config or proposed
        return None if path in {"ci-doctor.toml", "pyproject.toml"} else path
