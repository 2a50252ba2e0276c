# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: the identity of a server before it is started.

Nothing is started, imported or downloaded.
"""

import errno
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ci_doctor.identity.hardware import hardware
from ci_doctor.identity.identity import Identity
from ci_doctor.identity.libraries import libraries
from ci_doctor.identity.served_model import models
from ci_doctor.identity.variables import variables
from ci_doctor.machine.interpreters import UnknownInterpreterError, interpreter_of
from ci_doctor.system.secrets.redaction import Redactor

# A file on the command line is a script or a configuration; a larger file counts by its size.
_SMALL = 4 << 20
# Source files of a module that are read.
_FILES = 500


class Served(Struct, frozen=True, kw_only=True):
    """A command to be started: `words` with placeholders, the whole `environ`, its directory."""

    name: str
    words: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path


def read_identity(
    served: Sequence[Served],
    requested_models: Iterable[str],
    redactor: Redactor,
    ignore: Collection[str] = (),
) -> Identity:
    """The identity of a group of services.

    Facts whose names match one of `ignore` (with `*` and `?`) are noted only: the part that is
    under test, and not used by the baseline. With more than one service, the facts of each have its
    name in front. Raises nothing: what cannot be read is unknown. Typically some ten milliseconds;
    waking a GPU's driver may take a second.
    """
    identity = hardware(served[0].environ if served else {})
    models_in_requests = set(requested_models)
    for each in served:
        front = f"{each.name}: " if len(served) > 1 else ""
        identity = identity.also(_one(each, models_in_requests, redactor).rewritten(str, front))
    return _without(identity.rewritten(redactor.without_values), ignore)


def _one(served: Served, requested_models: Collection[str], redactor: Redactor) -> Identity:
    words = [word.replace(f"{served.cwd}/", "") for word in redactor.argv(served.words)]
    # The path of an interpreter or a script differs from agent to agent; what it runs is read
    # below.
    if words:
        words[0] = Path(words[0]).name
    return (
        Identity.of({"argv": " ".join(words)})
        .also(_files(served))
        .also(_software(served))
        .also(models(served.words, served.environ, served.cwd, requested_models))
        .also(variables(served.environ))
    )


def _software(served: Served) -> Identity:
    try:
        python = interpreter_of(served.words, served.environ, served.cwd)
    # RuntimeError: a link that leads to itself.
    except (UnknownInterpreterError, OSError, RuntimeError) as error:
        return Identity.of({}, {"libraries": str(error)})
    own = Identity.of({"python": python.version}, {}, {"interpreter": str(python.python)})
    return own.also(libraries(python.directories))


def _files(served: Served) -> Identity:
    """The files that a command line names, by content: a server's script, a configuration."""
    facts: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for word in _words(served):
        # Longer than any path, or a text that no path can be.
        if not word or len(word) >= 4096 or "\0" in word:
            continue
        path = served.cwd / word
        name = f"file {word.removeprefix(f'{served.cwd}/')}"
        try:
            if path.is_file():
                facts[name] = _content(path)
        except (OSError, ValueError) as error:
            # Too long for a name: a key, or JSON, which is in `argv` without its secrets.
            if getattr(error, "errno", None) != errno.ENAMETOOLONG:
                unknown[name] = f"it cannot be read: {error}"
    return Identity.of({**facts, **_module(served)}, unknown)


def _content(path: Path) -> str:
    size = path.stat().st_size
    if size > _SMALL:
        return f"{size} bytes"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _module(served: Served) -> dict[str, str]:
    """The sources of `python -m NAME`, if NAME lies in the working directory.

    The modules that these import are not followed.
    """
    words = served.words
    name = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    if not re.fullmatch(r"\w+(\.\w+)*", name):
        return {}
    path = served.cwd.joinpath(*name.split("."))
    files = [path.with_suffix(".py")]
    content = hashlib.sha256()
    try:
        if path.is_dir():
            files = sorted(islice(path.rglob("*.py"), _FILES))
        for file in files:
            content.update(str(file).removeprefix(str(path)).encode())
            content.update(file.read_bytes())
    except OSError:
        return {}
    return {f"module {name}": content.hexdigest()[:12]} if files else {}


def _words(served: Served) -> Iterator[str]:
    """Words that may name files; of options such as `--config=FILE` the value."""
    for word in served.words[:1]:
        # A console script beside its Python says only how pip has made it.
        beside_python = (served.cwd / word).parent.glob("python*")
        if "/" in word and not any(beside_python):
            yield word
    for word in served.words[1:]:
        yield word.partition("=")[2] if word.startswith("-") else word
    for name, value in served.environ.items():
        if name.endswith("_CONFIG_FILE"):
            yield value


def _without(identity: Identity, ignore: Collection[str]) -> Identity:
    """`identity` with the facts that match one of `ignore` as notes."""
    readings = {
        **identity.facts,
        **{name: f"unknown: {reason}" for name, reason in identity.unknown.items()},
    }
    ignored = {name: text for name, text in readings.items() if _matches(name, ignore)}
    return Identity.of(
        {name: value for name, value in identity.facts.items() if name not in ignored},
        {name: reason for name, reason in identity.unknown.items() if name not in ignored},
        {**identity.noted, **ignored},
    )


def _matches(name: str, globs: Collection[str]) -> bool:
    """Whether the whole name matches one of `globs`, or the name without its service."""
    plain = name.rpartition(": ")[2]
    return any(fnmatchcase(name, glob) or fnmatchcase(plain, glob) for glob in globs)
