# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: which cache directories a job has, and whether a saved cache may be used there."""

import contextlib
import hashlib
import os
import pwd
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.caches.facts import ABSENT, FactReader, UnknownFactError, package_time
from ci_doctor.caches.families import (
    FAMILIES,
    Family,
    OwnFamily,
    all_families,
    directory_of,
    own_family,
)
from ci_doctor.caches.judge import Tiers
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.machine.interpreters import Interpreter, UnknownInterpreterError, locate_python
from ci_doctor.model.words import did_you_mean
from ci_doctor.store.manifest import IdentityTier, Manifest
from ci_doctor.system.processes.limited_runs import LimitedRuns, SeparateRun

# --- the identity of a cache in three tiers ---

# Counts up if a family's facts get another meaning: caches of before are refused then.
SCHEMA = "1"
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL")


def read_tiers(
    family: Family,
    reader: FactReader,
    directory: Path,
) -> Tiers:
    """The identity of `family`'s cache in `directory`.

    Raises nothing: what cannot be read is unknown, with the reason. Tens of milliseconds without a GPU or a compiler.
    """
    hard = {name: _of_reader(reader, name) for name in family.hard}
    for number, name in enumerate(family.distributions):
        hard[f"package.{name}"] = _package(reader, name, is_required=number == 0)
    if family.needs_gpu:
        hard["gpu.names"] = lambda: _present_gpus(reader)
    variables = {
        f"env.{name}": _setting(name, reader.environ[name])
        for name in family.environment
        if name in reader.environ
    }
    path = {name: _path_fact(name, family, reader, directory) for name in family.path}
    contents = {f"file.{name}": _content(name) for name in family.files}
    # Relocation needs to know where from, even if the directory decides nothing.
    path["cache.root"] = lambda: str(directory.absolute())
    chosen = {name: _of_reader(reader, name) for name in family.soft}
    chosen["cpu.model"] = lambda: reader.read("cpu.model")
    (chosen if family.fallback else hard).update(contents)
    return Tiers(
        hard=_identity(hard, {"family.schema": SCHEMA, **variables}),
        path=_identity(path, {}),
        soft=_identity(chosen, {}),
    )


def _of_reader(reader: FactReader, name: str) -> Callable[[], str]:
    return lambda: reader.read(name)


def _content(name: str) -> Callable[[], str]:
    """The digest of a file of the checkout."""

    def read() -> str:
        try:
            with Path(name).open("rb") as file:
                return f"sha256 {hashlib.file_digest(file, 'sha256').hexdigest()[:32]}"
        except OSError as error:
            raise UnknownFactError(f"{name} cannot be read: {error.strerror}") from error

    return read


def _setting(name: str, value: str) -> str:
    """A variable's value; of one that may be a secret, a digest: a manifest is read by many."""
    if _SECRET.search(name):
        return f"sha256 {hashlib.sha256(value.encode(errors='surrogateescape')).hexdigest()[:16]}"
    return value


def _present_gpus(reader: FactReader) -> str:
    names = reader.read("gpu.names")
    if names == "none":
        raise UnknownFactError("this is a cache of kernels for a GPU, and the job sees none")
    return names


def _package(reader: FactReader, name: str, *, is_required: bool) -> Callable[[], str]:
    """The first distribution of a family makes its cache: if it is absent, this is another Python.

    Two such jobs would agree that it is not installed, and share what two versions have made.
    """

    def read() -> str:
        build = reader.read(f"package.{name}")
        if is_required and build == ABSENT:
            raise UnknownFactError(f"{name} is not installed for the job's Python")
        return build

    return read


def _path_fact(name: str, family: Family, reader: FactReader, directory: Path) -> Callable[[], str]:
    first = next(iter(family.distributions), None)
    if name == "cache.root":
        return lambda: str(directory.absolute())
    if name == "python.environment":
        return lambda: reader.place_of(first)
    if name == "package.times":
        return lambda: " ".join(
            package_time(each, reader.directories) for each in family.distributions
        )
    return _of_reader(reader, name)


def _identity(readers: Mapping[str, Callable[[], str]], known: Mapping[str, str]) -> Identity:
    facts = dict(known)
    unknown = {}
    for name, read in readers.items():
        try:
            facts[name] = read()
        except UnknownFactError as error:
            unknown[name] = str(error)
    return Identity.of(facts, unknown)


# --- which cache directories a job has, and the identity of each ---

# A start of Python takes a tenth of a second; on a network file system, some.
_ASK_S = 10.0


class CacheTarget(Struct, frozen=True, kw_only=True):
    """A family and the directory in which the job has its cache; it need not exist.

    is_named: the user wrote the directory down.
    """

    family: Family
    directory: Path
    is_named: bool = False


class IdentifiedCache(Struct, frozen=True, kw_only=True):
    """A target, and the identity of what lies or would lie there."""

    family: Family
    directory: Path
    tiers: Tiers
    is_named: bool = False

    @property
    def hard(self) -> str:
        """The name of the hard tier in a store: 32 hex digits."""
        return tier_of(self.tiers.hard).digest()[:32]


def targets_of(
    words: Iterable[str], own: Mapping[str, OwnFamily], environ: Mapping[str, str]
) -> tuple[CacheTarget, ...]:
    """The targets that `words` name, each `NAME` or `NAME=DIR`; without any, all that are known.

    Raises UsageError for a name that is no family and has no directory, for one whose directory
    nothing tells, and for a directory that holds the checkout or is the home.
    """
    environ = _with_home(environ)
    named = tuple(dict.fromkeys(words))
    if not named:
        families = (*all_families(), *(own_family(name, each) for name, each in own.items()))
        targets = []
        for family in families:
            directory = directory_of(family, environ)
            if directory is not None:
                targets.append(CacheTarget(family=family, directory=directory.absolute()))
        return tuple(targets)
    return tuple(_target(word, own, environ) for word in named)


def identify(
    targets: Iterable[CacheTarget],
    environ: Mapping[str, str],
    python: str | None,
) -> tuple[IdentifiedCache, ...]:
    """The targets with their identities. `python` is the job's interpreter, a path or a name.

    None stands for that of the active virtual environment, else `python3` on PATH. An interpreter that cannot be read makes facts unknown.
    """
    reader = FactReader(environ, _interpreter(python, environ))
    return tuple(
        IdentifiedCache(
            family=target.family,
            directory=target.directory,
            tiers=read_tiers(target.family, reader, target.directory),
            is_named=target.is_named,
        )
        for target in targets
    )


def tier_of(identity: Identity) -> IdentityTier:
    """An identity as a manifest keeps it."""
    return IdentityTier(facts=dict(identity.facts), unknown=tuple(identity.unknown))


def tiers_in(manifest: Manifest) -> Tiers:
    """The identity that a manifest keeps."""
    return Tiers(
        hard=identity_of(manifest.hard),
        path=identity_of(manifest.path),
        soft=identity_of(manifest.soft),
    )


def identity_of(tier: IdentityTier) -> Identity:
    """A tier as an identity; why a fact is unknown was not kept."""
    return Identity.of(tier.facts, dict.fromkeys(tier.unknown, "to the job that saved it"))


def _target(word: str, own: Mapping[str, OwnFamily], environ: Mapping[str, str]) -> CacheTarget:
    name, separator, directory = word.partition("=")
    family = _family(name, own, has_directory=bool(separator))
    if separator and not directory:
        raise UsageError(f"--family {word}: no directory behind `=`")
    place = Path(directory) if separator else directory_of(family, environ)
    if place is None:
        raise UsageError(
            f"--family {word}: nothing says where {family.library} has its cache",
            hint=f"set {family.variable or 'HOME'}, or write {name}=DIR",
        )
    if separator:
        _check_place(word, place, environ)
    return CacheTarget(family=family, directory=place.absolute(), is_named=bool(separator))


def _check_place(word: str, place: Path, environ: Mapping[str, str]) -> None:
    """Raise UsageError if all of it would be sent to a store: the checkout, the home, the machine."""
    # Not Path.resolve(), which raises for a loop of links; who restores there hears of it.
    real = os.path.realpath(place)
    for name, inside in (("checkout", Path.cwd()), ("home", Path(environ.get("HOME", "/")))):
        if Path(os.path.realpath(inside)).is_relative_to(real):
            message = f"--family {word}: {place} holds the {name}, so it is no cache"
            raise UsageError(message, hint="name the directory of the cache alone")


def _with_home(environ: Mapping[str, str]) -> dict[str, str]:
    """With the user's home where no variable names it, as os.path.expanduser has it for libraries."""
    if environ.get("HOME"):
        return dict(environ)
    with contextlib.suppress(KeyError):  # a container's user without an entry
        return {**environ, "HOME": pwd.getpwuid(os.getuid()).pw_dir}
    return dict(environ)


def _family(name: str, own: Mapping[str, OwnFamily], *, has_directory: bool) -> Family:
    if name in own:
        return own_family(name, own[name])
    if name in FAMILIES:
        return FAMILIES[name]
    if has_directory:
        return own_family(name)
    hint = did_you_mean(name, (*FAMILIES, *own)) or f"a family of your own: {name}=DIR"
    raise UsageError(f"no cache family is called {name}", hint=hint)


def _interpreter(python: str | None, environ: Mapping[str, str]) -> Interpreter | None:
    cwd = Path.cwd()

    def run(words: Sequence[str]) -> SeparateRun:
        return LimitedRuns().run(words, cwd=cwd, environ=environ, timeout_s=_ASK_S)

    try:
        return locate_python(python or _first_python(environ), environ, cwd, run)
    except (UnknownInterpreterError, OSError):
        return None


def _first_python(environ: Mapping[str, str]) -> str:
    """That of the active virtual environment, else the first on PATH."""
    active = environ.get("VIRTUAL_ENV")
    if active and Path(active, "bin", "python").exists():
        return str(Path(active, "bin", "python"))
    return shutil.which("python3", path=environ.get("PATH")) or "python3"
