# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: which model a command serves, and which revision of it lies here. Nothing is downloaded."""

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
_REVISIONS = ("--revision", "--model-revision")
_HASH = re.compile(r"[0-9a-f]{40}")
# Read whole: the settings of a model are small, its weights are told by name and size.
_SMALL = 1 << 20


def model_of(words: Sequence[str]) -> str | None:
    """The model that a command line names: `--model X`, `--model-path X`, `vllm serve X`; None where none of these is there."""
    if (named := _option(words, _OPTIONS)) is not None:
        return named
    for index, word in enumerate(words[:-1]):
        # Behind an option there may be its value: what the model is cannot be told from there.
        if word == "serve" and not words[index + 1].startswith("-"):
            return words[index + 1]
    return None


def models(
    words: Sequence[str], environ: Mapping[str, str], cwd: Path, asked: Iterable[str]
) -> Identity:
    """`model`, its revision, and what the requests call it (`asked`, their `model`)."""
    names = sorted(set(asked))
    asking = Identity.of({"model.requests": ", ".join(names)} if names else {})
    named = model_of(words)
    if named is None:
        return asking.also(Identity.of({}, {"model": "the command names none"}))
    if (cwd / named).is_dir():
        return asking.also(_local(named, cwd / named))
    asked_for = _option(words, _REVISIONS) or "main"
    facts, unknown = {"model": named}, {}
    commit = asked_for if _HASH.fullmatch(asked_for) else _cached(named, asked_for, environ)
    if commit:
        facts["model.revision"] = commit
    else:
        unknown["model.revision"] = f"the local Hugging Face cache holds no {asked_for} of it"
    return asking.also(Identity.of(facts, unknown))


def _option(words: Sequence[str], names: Sequence[str]) -> str | None:
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in names:
            return value if equals else words[index + 1] if index + 1 < len(words) else None
    return None


def _cached(name: str, revision: str, environ: Mapping[str, str]) -> str | None:
    """The commit that a branch or tag stands for, as huggingface_hub keeps it: models--ORG--NAME/refs/REVISION."""
    for hub in _hubs(environ):
        try:
            commit = (
                (hub / f"models--{name.replace('/', '--')}" / "refs" / revision).read_text().strip()
            )
        except (OSError, ValueError):
            continue
        if _HASH.fullmatch(commit):
            return commit
    return None


def _hubs(environ: Mapping[str, str]) -> list[Path]:
    """https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables."""
    for variable, below in (
        ("HF_HUB_CACHE", "."),
        ("HUGGINGFACE_HUB_CACHE", "."),
        ("HF_HOME", "hub"),
    ):
        if environ.get(variable):
            return [Path(environ[variable]) / below]
    home = environ.get("XDG_CACHE_HOME") or (
        f"{environ['HOME']}/.cache" if environ.get("HOME") else ""
    )
    return [Path(home) / "huggingface" / "hub"] if home else []


def _local(name: str, directory: Path) -> Identity:
    """A directory: the small files by content, the weights by name and size; one of the cache by its commit."""
    if directory.parent.name == "snapshots" and _HASH.fullmatch(directory.name):
        return Identity.of(
            {"model": directory.parent.parent.name, "model.revision": directory.name}
        )
    content = hashlib.sha256()
    try:
        files = sorted(path for path in directory.iterdir() if path.is_file())
        for path in files:
            size = path.stat().st_size
            content.update(f"{path.name}\0{size}\0".encode(errors="surrogateescape"))
            content.update(path.read_bytes() if size <= _SMALL else b"")
    except OSError as error:
        return Identity.of(
            {"model": name}, {"model.revision": f"{directory} cannot be read: {error.strerror}"}
        )
    return Identity.of(
        {
            "model": name,
            "model.revision": f"files {content.hexdigest()[:12]}, weights by name and size",
        }
    )
