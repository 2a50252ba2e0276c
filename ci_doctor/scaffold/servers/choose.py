# SPDX-License-Identifier: Apache-2.0
"""Pure. Which of a repository's servers are proposed as the two arms."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.scaffold.reading.source_file import ScriptPlace
from ci_doctor.scaffold.reading.variables import unknown_variables
from ci_doctor.scaffold.servers.candidate import ServerCandidate
from ci_doctor.scaffold.servers.make_candidate import without_connector
from ci_doctor.scaffold.servers.option_words import PORT
from ci_doctor.scaffold.servers.table import KV_STORE

_PLACES: Final = list(ScriptPlace)
# What an image runs may need all of that image; what needs variables, the job must bring.
_CONTAINER: Final = 3
_UNKNOWN: Final = 2


class ArmsKind(StrEnum):
    """What the two arms differ by."""

    # Two commands of the repository, one with a KV connector and one without.
    TWO_COMMANDS = "two commands"
    # One command with a KV connector, and the same without.
    CONNECTOR_OFF = "connector left out"
    # One command twice: a run shows whether the server repeats itself.
    SAME = "the same command"


class ProposedArms(Struct, frozen=True, kw_only=True):
    """`store` is started before the candidate, which keeps its keys and values there."""

    baseline: ServerCandidate
    candidate: ServerCandidate
    kind: ArmsKind
    store: ServerCandidate | None = None


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


def choose_arms(
    servers: Sequence[ServerCandidate], chosen: ServerCandidate | None = None
) -> ProposedArms | None:
    """The arms for the likeliest server, or for the one that a person has `chosen`; None without any."""
    whole = [each for each in servers if each.role is None and each.apis]
    first = chosen or next(iter(whole), None)
    if first is None:
        return None
    kin = [each for each in whole if each.kind == first.kind and each.model == first.model]
    plain = next((each for each in [first, *kin] if each.connector is None), None)
    connected = next((each for each in [first, *kin] if each.connector is not None), None)
    if connected is None:
        return ProposedArms(baseline=first, candidate=first, kind=ArmsKind.SAME)
    store = _store(connected, servers)
    linked = _linked(connected, store)
    if store is not None and linked is connected:
        # Its address stands in a file of settings.
        store = _at_own_port(store)
    if plain is None:
        return ProposedArms(
            baseline=without_connector(connected),
            candidate=linked,
            kind=ArmsKind.CONNECTOR_OFF,
            store=store,
        )
    return ProposedArms(baseline=plain, candidate=linked, kind=ArmsKind.TWO_COMMANDS, store=store)


def _rank(server: ServerCandidate) -> tuple[int, int, int, str, int]:
    place = _PLACES.index(server.command.place)
    if server.command.in_container:
        place += _CONTAINER
    if server.unknown:
        place += _UNKNOWN
    # `fastapi dev` is what a person types.
    place += "dev" in server.command.words
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
    old, new = f":{port}", ":{kv.port}"
    words = tuple(word.replace(old, new) for word in server.words)
    env = {name: value.replace(old, new) for name, value in server.env.items()}
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
