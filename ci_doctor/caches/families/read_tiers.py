# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: the identity of a cache in three tiers."""

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ci_doctor.caches.families.fact_reader import FactReader
from ci_doctor.caches.families.family import Family
from ci_doctor.caches.families.packages import ABSENT, package_time
from ci_doctor.caches.families.tiers import Tiers
from ci_doctor.caches.families.unknown_fact import UnknownFactError
from ci_doctor.identity.identity import Identity

# Counts up if a family's facts get another meaning: caches of before are refused then.
SCHEMA = "1"
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL")


def read_tiers(
    family: Family,
    reader: FactReader,
    directory: Path,
    soft: Mapping[str, str] | None = None,
) -> Tiers:
    """The identity of `family`'s cache in `directory`.

    soft: further facts that choose among candidates, such as a model's name. Raises nothing: what
    cannot be read is unknown, with the reason. Tens of milliseconds without a GPU or a compiler.
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
        soft=_identity(chosen, soft or {}),
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
