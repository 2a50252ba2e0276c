# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: which model a command serves, and which revision of it lies here.

Nothing is downloaded.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ci_doctor.identity.identity import Identity

_OPTIONS = (
    "--model",
    "--model-path",
    "--model_path",
    "--model_name_or_path",
    "--model-name-or-path",
)
_HASH = re.compile(r"[0-9a-f]{40}")
# Files up to this size count by content: the settings of a model. Its weights count by name and
# size.
_SMALL = 1 << 20


def model_of(words: Sequence[str]) -> str | None:
    """The model of a command line: `--model X`, `--model-path X`, `vllm serve X`; else None."""
    named = _option(words, _OPTIONS)
    if named is not None:
        return named
    for index, word in enumerate(words[:-1]):
        # After an option there may be its value, so the model is uncertain.
        if word == "serve" and not words[index + 1].startswith("-"):
            return words[index + 1]
    return None


def models(
    words: Sequence[str], environ: Mapping[str, str], cwd: Path, requests: Iterable[str]
) -> Identity:
    """`model`, its revision, and the names that the requests use (`requests`, their `model`)."""
    names = sorted(set(requests))
    requested = Identity.of({"model.requests": ", ".join(names)} if names else {})
    return requested.also(_served(words, environ, cwd))


def _served(words: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Identity:
    name = model_of(words)
    if name is None:
        return Identity.of({}, {"model": "the command names none"})
    if (cwd / name).is_dir():
        return _local(name, cwd / name)
    revision = _option(words, ("--revision", "--model-revision")) or "main"
    commit = revision if _HASH.fullmatch(revision) else _cached(name, revision, environ)
    if commit:
        return Identity.of({"model": name, "model.revision": commit})
    reason = f"the local Hugging Face cache holds no {revision} of it"
    return Identity.of({"model": name}, {"model.revision": reason})


def _option(words: Sequence[str], names: Sequence[str]) -> str | None:
    """The value of the first of `words` that is one of the options `names`."""
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option not in names:
            continue
        if equals:
            return value
        return words[index + 1] if index + 1 < len(words) else None
    return None


def _cached(name: str, revision: str, environ: Mapping[str, str]) -> str | None:
    """The commit of a branch or tag in the cache: models--ORG--NAME/refs/REVISION."""
    folder = f"models--{name.replace('/', '--')}"
    for hub in _hubs(environ):
        try:
            commit = (hub / folder / "refs" / revision).read_text().strip()
        except (OSError, ValueError):
            continue
        if _HASH.fullmatch(commit):
            return commit
    return None


def _hubs(environ: Mapping[str, str]) -> list[Path]:
    """https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environ.get(variable):
            return [Path(environ[variable])]
    if environ.get("HF_HOME"):
        return [Path(environ["HF_HOME"]) / "hub"]
    caches = environ.get("XDG_CACHE_HOME")
    if not caches and environ.get("HOME"):
        caches = f"{environ['HOME']}/.cache"
    return [Path(caches) / "huggingface" / "hub"] if caches else []


def _local(name: str, directory: Path) -> Identity:
    """A directory: small files by content, weights by name and size; one of the cache by commit."""
    # The cache's own layout: models--ORG--NAME/snapshots/COMMIT.
    if directory.parent.name == "snapshots" and _HASH.fullmatch(directory.name):
        repository = directory.parent.parent.name
        return Identity.of({"model": repository, "model.revision": directory.name})
    try:
        digest = _digest(directory)
    except OSError as error:
        reason = f"{directory} cannot be read: {error.strerror}"
        return Identity.of({"model": name}, {"model.revision": reason})
    revision = f"files {digest[:12]}, weights by name and size"
    return Identity.of({"model": name, "model.revision": revision})


def _digest(directory: Path) -> str:
    content = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        if not path.is_file():
            continue
        size = path.stat().st_size
        content.update(f"{path.name}\0{size}\0".encode(errors="surrogateescape"))
        if size <= _SMALL:
            content.update(path.read_bytes())
    return content.hexdigest()
