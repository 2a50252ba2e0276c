# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: the identity of a server before it is started. Nothing is started, imported or downloaded."""

import errno
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from pathlib import Path

from msgspec import Struct

from ci_doctor.identity.hardware import hardware
from ci_doctor.identity.identity import Identity
from ci_doctor.identity.interpreter import Interpreter, UnknownInterpreterError, interpreter_of
from ci_doctor.identity.libraries import libraries
from ci_doctor.identity.served_model import models
from ci_doctor.identity.variables import variables
from ci_doctor.system.secrets.redaction import Redactor

# A file on the command line is a script or a configuration; what is larger is told by its size.
_SMALL = 4 << 20
_FILES = 500


class Served(Struct, frozen=True, kw_only=True):
    """A command to be started: `words` with placeholders still in them, the whole `environ`, and where it runs."""

    name: str
    words: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path


def read_identity(
    served: Sequence[Served], asked: Iterable[str], redactor: Redactor, ignore: Collection[str] = ()
) -> Identity:
    """The identity of a group of services; `asked` are the models that the requests name.

    Facts whose names match one of `ignore` (with `*` and `?`) are noted only: the part that is under test, and not used by
    the baseline. With more than one service, the facts of each bear its name in front. Raises nothing: what cannot be read
    is unknown. Typically some ten milliseconds; waking a GPU's driver may take a second.
    """
    identity = hardware(served[0].environ if served else {})
    prompted = set(asked)
    for each in served:
        front = f"{each.name}: " if len(served) > 1 else ""
        identity = identity.also(_renamed(_one(each, prompted, redactor), front))
    return _without(_redacted(identity, redactor), ignore)


def _one(served: Served, asked: Collection[str], redactor: Redactor) -> Identity:
    words = [word.replace(f"{served.cwd}/", "") for word in redactor.argv(served.words)]
    # By what name an interpreter or a script is reached differs from agent to agent; what it runs is told below.
    line = Identity.of({"argv": " ".join([*(Path(word).name for word in words[:1]), *words[1:]])})
    return (
        line.also(_files(served))
        .also(_software(served))
        .also(models(served.words, served.environ, served.cwd, asked))
        .also(variables(served.environ))
    )


def _software(served: Served) -> Identity:
    try:
        python: Interpreter = interpreter_of(served.words, served.environ, served.cwd)
    except (
        UnknownInterpreterError,
        OSError,
        RuntimeError,
    ) as error:  # RuntimeError: a link that leads to itself
        return Identity.of({}, {"libraries": str(error)})
    own = Identity.of({"python": python.version}, {}, {"interpreter": str(python.python)})
    return own.also(libraries(python.directories))


def _files(served: Served) -> Identity:
    """The files that a command line names, by content: a server's script, a configuration."""
    facts: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for word in _named(served):
        path = served.cwd / word
        name = f"file {word.removeprefix(f'{served.cwd}/')}"
        try:
            if not path.is_file():
                continue
            size = path.stat().st_size
            content = path.read_bytes() if size <= _SMALL else None
        except (OSError, ValueError) as error:
            # Too long for a name: a key, or JSON, which is in `argv` without its secrets.
            if not isinstance(error, OSError) or error.errno != errno.ENAMETOOLONG:
                unknown[name] = f"it cannot be read: {error}"
            continue
        facts[name] = (
            hashlib.sha256(content).hexdigest()[:12] if content is not None else f"{size} bytes"
        )
    return Identity.of({**facts, **_module(served)}, unknown)


def _module(served: Served) -> dict[str, str]:
    """The sources of `python -m NAME` where NAME lies in the working directory; what they import is not followed."""
    name = next((after for word, after in pairwise(served.words) if word == "-m"), "")
    if not re.fullmatch(r"\w+(\.\w+)*", name):
        return {}
    path = served.cwd.joinpath(*name.split("."))
    try:
        files = (
            sorted(islice(path.rglob("*.py"), _FILES))
            if path.is_dir()
            else [path.with_suffix(".py")]
        )
        content = b"".join(
            str(file).removeprefix(str(path)).encode() + file.read_bytes() for file in files
        )
    except OSError:
        return {}
    return {f"module {name}": hashlib.sha256(content).hexdigest()[:12]} if content else {}


def _named(served: Served) -> list[str]:
    """Words that may name files, of options such as `--config=FILE` what stands behind; not a console script."""
    first = served.words[:1]
    own = [
        word
        for word in first
        if "/" in word and not any((served.cwd / word).parent.glob("python*"))
    ]
    rest = [word.partition("=")[2] if word.startswith("-") else word for word in served.words[1:]]
    variables = [value for name, value in served.environ.items() if name.endswith("_CONFIG_FILE")]
    return [
        word for word in (*own, *rest, *variables) if word and len(word) < 4096 and "\0" not in word
    ]


def _renamed(identity: Identity, front: str) -> Identity:
    facts, unknown, noted = (
        {f"{front}{name}": value for name, value in each.items()}
        for each in (identity.facts, identity.unknown, identity.noted)
    )
    return Identity.of(facts, unknown, noted)


def _redacted(identity: Identity, redactor: Redactor) -> Identity:
    facts, unknown, noted = (
        {name: redactor.without_values(value) for name, value in each.items()}
        for each in (identity.facts, identity.unknown, identity.noted)
    )
    return Identity.of(facts, unknown, noted)


def _without(identity: Identity, ignore: Collection[str]) -> Identity:
    def is_ignored(name: str) -> bool:
        plain = name.rpartition(": ")[2]
        return any(fnmatchcase(name, glob) or fnmatchcase(plain, glob) for glob in ignore)

    taken = {name: value for name, value in identity.facts.items() if is_ignored(name)}
    taken |= {name: f"unknown: {why}" for name, why in identity.unknown.items() if is_ignored(name)}
    return Identity.of(
        {name: value for name, value in identity.facts.items() if name not in taken},
        {name: why for name, why in identity.unknown.items() if name not in taken},
        {**identity.noted, **taken},
    )
