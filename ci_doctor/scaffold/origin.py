# SPDX-License-Identifier: Apache-2.0
"""Reads this installation: where other machines can install the same ci-doctor from, and what starts it on this one.

A name of a package index is no place: anybody could register it. The file is direct_url.json (PEP 610).
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import ci_doctor
from ci_doctor.git import ask_git
from ci_doctor.machine.packages import Origin, find_package
from ci_doctor.scaffold.arms import ToolOrigin
from ci_doctor.version import DISTRIBUTION

_PLUGIN: Final = "buildkite_plugins/ci-doctor"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# What stands in YAML, in a shell and in an address as it is.
_PLAIN: Final = re.compile(r"[\w.~:/@%+\[\]-]+", re.ASCII)
# `git@host:owner/name.git`, the short form of ssh.
_SHORT: Final = re.compile(r"(?P<host>(?:[\w.-]+@)?[\w.-]{2,}):(?P<path>(?!//)[^/].*)", re.ASCII)
_WHEEL: Final = re.compile(r"/ci_doctor_toolkit-[^/]+\.whl")
# Hosts on which an agent needs no `.git` to see where a repository's name ends.
_SHORT_NAMES: Final = frozenset({"github.com", "bitbucket.org"})


def tool_origin() -> ToolOrigin:
    """The origin of the ci-doctor that runs."""
    script = Path(sys.executable).with_name("ci-doctor")
    # With -P, the directory in which a commit is made adds no module.
    program = (str(script),) if script.exists() else (sys.executable, "-P", "-m", "ci_doctor")
    package = find_package(DISTRIBUTION, [Path(entry) for entry in sys.path if entry])
    origin = package.origin if package is not None else Origin({})
    if origin:
        made = origin_of(origin)
    else:
        root = Path(ci_doctor.__file__).resolve().parents[1]
        if (root / "pyproject.toml").is_file():
            made = _of_clone(root, None)
        else:
            made = ToolOrigin(
                missing="was installed by its name, which anybody could register on an index"
            )
    return ToolOrigin(
        requirement=made.requirement, plugin=made.plugin, missing=made.missing, program=program
    )


def origin_of(origin: Origin) -> ToolOrigin:
    """The origin by the values of a direct_url.json."""
    address = portable_address(origin.url or "")
    table = origin.values.get("archive_info")
    if isinstance(table, dict):
        return _of_archive(address, table, origin.url or "")
    subdirectory = str(origin.values.get("subdirectory") or "")
    if address is not None and origin.commit is not None:
        return _at_commit(address, origin.commit, subdirectory)
    if origin.source is not None:
        return _of_clone(origin.source / subdirectory, origin.commit)
    return ToolOrigin(missing=f"was installed from {_shown(origin.url)}, and no commit is noted")


def _of_archive(address: str | None, table: dict[str, object], url: str) -> ToolOrigin:
    hashes = table.get("hashes")
    digest = hashes.get("sha256") if isinstance(hashes, dict) else None
    digest = digest or str(table.get("hash") or "").removeprefix("sha256=")
    if address is None:
        return ToolOrigin(missing=f"was installed from {_shown(url)}, a file of this machine")
    if not re.fullmatch("[0-9a-f]{64}", str(digest)) or not _WHEEL.search(address):
        return ToolOrigin(
            missing=f"was installed from {_shown(url)}, and no wheel with its sha256 is noted"
        )
    return ToolOrigin(requirement=f"{address}#sha256={digest}")


def _of_clone(directory: Path, commit: str | None) -> ToolOrigin:
    """By a remote that has the commit of a clone on this machine."""
    here = f"was installed from {directory}"
    top = ask_git(directory, "rev-parse", "--show-toplevel")
    tracked = ask_git(directory, "ls-files", "--", "pyproject.toml")
    is_open = commit is None
    if commit is None:
        commit = ask_git(directory, "rev-parse", "HEAD")
    # A bare repository has no top.
    is_whole = commit is not None and (top is None or bool(tracked))
    remotes = list(_remotes(directory)) if is_whole else []
    if commit is None or not remotes:
        return ToolOrigin(missing=f"{here}, and no remote of that clone has an address")
    # Of a clone, what runs here is its files; of a commit, what it holds.
    if is_open and ask_git(directory, "status", "--porcelain", "-uno", "--", "ci_doctor"):
        return ToolOrigin(missing=f"{here}, with changes that no commit has: commit and push them")
    listed = ask_git(directory, "branch", "--remotes", "--contains", commit) or ""
    branches = [line.split()[0] for line in listed.splitlines() if line.strip()]
    subdirectory = ask_git(directory, "rev-parse", "--show-prefix") or ""
    for name, address in remotes:
        if any(branch.startswith(f"{name}/") for branch in branches):
            return _at_commit(address, commit, subdirectory)
    return ToolOrigin(
        missing=f"{here}, and no branch of a remote is known to have its commit {commit[:12]}: push it"
    )


def _remotes(directory: Path) -> Iterator[tuple[str, str]]:
    """The names and addresses of remotes that other machines may have, `origin` first."""
    names = (ask_git(directory, "remote") or "").splitlines()
    for name in sorted(names, key=lambda each: (each != "origin", each)):
        # As it is written, and as `url.….insteadOf` rewrites it here.
        for words in (("config", f"remote.{name}.url"), ("remote", "get-url", name)):
            address = portable_address(ask_git(directory, *words) or "")
            if address is not None:
                yield name, address
                break


def _at_commit(address: str, commit: str, subdirectory: str) -> ToolOrigin:
    folder = subdirectory.strip("/")
    if not _COMMIT.fullmatch(commit) or (folder and not _PLAIN.fullmatch(folder)):
        return ToolOrigin(
            missing=f"was installed from {address}, and no commit that a file can hold is noted"
        )
    fragment = f"#subdirectory={folder}" if folder else ""
    plain = address.rstrip("/")
    repository = plain
    if urlsplit(plain).hostname not in _SHORT_NAMES and not plain.endswith(".git"):
        repository = f"{plain}.git"
    parts = [repository, *([folder] if folder else []), _PLUGIN]
    return ToolOrigin(
        requirement=f"git+{plain}@{commit}{fragment}", plugin=f"{'/'.join(parts)}#{commit}"
    )


def portable_address(url: str) -> str | None:
    """An address without credentials; None for a path of this machine, and for what a file cannot hold as it is."""
    short = _SHORT.fullmatch(url) if "://" not in url else None
    if short is not None:
        url = f"ssh://{short['host']}/{short['path']}"
    try:
        parts = urlsplit(url.removeprefix("git+"))
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("https", "http", "ssh", "git") or not host or parts.query:
        return None
    place = f"[{host}]" if ":" in host else host
    # A user of ssh is no secret; one of https often is a token.
    user = f"{parts.username}@" if parts.scheme == "ssh" and parts.username else ""
    address = f"{parts.scheme}://{user}{place}{f':{port}' if port else ''}{parts.path}"
    return address if _PLAIN.fullmatch(address) else None


def _shown(url: str | None) -> str:
    """An address for a sentence: a path as one, nothing with credentials."""
    if url is None:
        return "a place that is not noted"
    path: Sequence[str] = url.partition("file://")
    return path[2] or portable_address(url) or "an address that a file cannot hold"
