# SPDX-License-Identifier: Apache-2.0
"""Which tags of a repository are versions, and how `git describe` is told to leave the others out."""

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

# `git describe --long` appends this (git-describe(1)).
_DESCRIBED = re.compile(r"^(?P<tag>.+)-\d+-g[0-9a-f]+$")


class Version(Protocol):
    """What is asked of a parsed version (packaging.version.Version, also pdm-backend's vendored one)."""

    @property
    def release(self) -> tuple[int, ...]: ...  # noqa: D102 - as in packaging


class Git(Protocol):
    """Runs git in one repository; gives its standard output, or None where it failed."""

    def __call__(self, *arguments: str) -> str | None: ...  # noqa: D102


class Tags(Struct, frozen=True, kw_only=True):
    """The tags that a backend could pick: `versions` by name, and those that do not parse."""

    versions: dict[str, Version]
    unparsable: tuple[str, ...]

    @property
    def exclusions(self) -> tuple[str, ...]:
        """Patterns for `git describe --exclude` that match every unparsable tag and no other."""
        return exclusions(self.unparsable, self.versions)


class Described(Struct, frozen=True, kw_only=True):
    """What git says about a checkout, in a backend's words, with the unparsable tags left out.

    `tag` is None where no tag is usable, `distance` the commits since it (None where unknown). `unparsable` names the tags
    reachable from HEAD that were left out; `breaks_on` is the one that the backend would otherwise have picked.
    `suspicious` says how `tag` was read, where that is hardly what was meant. `repository` is None where the version comes
    from files and not from git.
    """

    version: str
    repository: str | None = None
    tag: str | None = None
    distance: int | None = None
    dirty: bool = False
    shallow: bool = False
    unparsable: tuple[str, ...] = ()
    breaks_on: str | None = None
    suspicious: str | None = None


def list_tags(git: Git) -> tuple[str, ...]:
    """Every tag of the repository."""
    return tuple(
        (git("for-each-ref", "--format=%(refname:strip=2)", "refs/tags") or "").splitlines()
    )


def list_reachable(git: Git, names: Sequence[str]) -> tuple[str, ...]:
    """Those of `names` that are reachable from HEAD, newest first: only these can stand in the way of a build."""
    listed = git(
        "for-each-ref",
        "--merged=HEAD",
        "--sort=-creatordate",
        "--format=%(refname:strip=2)",
        "refs/tags",
    )
    wanted = set(names)
    return tuple(name for name in (listed or "").splitlines() if name in wanted)


def sort_tags(
    names: Iterable[str], command: Sequence[str], parse: Callable[[str], Version | None]
) -> Tags:
    """Sort the tags that the describe `command` could pick by whether `parse` makes a version of them."""
    versions: dict[str, Version] = {}
    unparsable: list[str] = []
    included, excluded = _globs(command, "--match"), _globs(command, "--exclude")
    for name in names:
        if (included and not _matches(name, included)) or _matches(name, excluded):
            continue
        version = parse(name)
        if version is None:
            unparsable.append(name)
        else:
            versions[name] = version
    return Tags(versions=versions, unparsable=tuple(unparsable))


def exclusions(unparsable: Iterable[str], versions: Iterable[str]) -> tuple[str, ...]:
    """Patterns that match every unparsable tag and no version.

    A family (`nightly-cu*`: all that stands before the first digit) becomes one pattern where no version belongs to it,
    because thousands of patterns would be slow and could be too long for one command line. Names need no escaping: git
    forbids glob characters in them (git-check-ref-format(1)).
    """
    families = {tag_family(name) for name in versions}
    patterns = []
    for name in unparsable:
        family = tag_family(name)
        alone = not family or any(other.startswith(family) for other in families)
        patterns.append(name if alone else f"{family}*")
    return tuple(dict.fromkeys(patterns))


def is_git_describe(command: Sequence[str]) -> bool:
    """Whether `command` is a `git describe` that can be told to leave tags out."""
    return bool(command) and command[0].rpartition("/")[2] == "git" and "describe" in command


def without_tags(command: Sequence[str], patterns: Iterable[str]) -> list[str]:
    """A `git describe` command that leaves out the tags matching `patterns` (`--exclude`: git >= 2.13)."""
    place = list(command).index("describe") + 1
    return [*command[:place], *(f"--exclude={pattern}" for pattern in patterns), *command[place:]]


def picked_tag(git: Git, command: Sequence[str]) -> str | None:
    """The tag that a `git describe` command picks; None where it finds none."""
    # --dirty is about the working tree and takes a look at every file.
    arguments = [word for word in command[1:] if not word.startswith("--dirty")]
    described = git(*arguments)
    if not described:
        return None
    match = _DESCRIBED.match(described)
    return match["tag"] if match else described


def reads_oddly(tag: str, text: str, versions: Mapping[str, Version]) -> bool:
    """Whether `tag`, of which `text` was taken for the version, is hardly a release.

    `nightly-2026-04-22` is read as 22 and `nightly-13` as 13. A number without a dot is believed where nothing stands
    before it but `v` and no tag of the project has a dotted version; setuptools-scm's `tag.strict` asks for the dot too.
    """
    if "." in text:
        return False
    return bool(tag.removesuffix(text).strip("vV")) or any(
        len(version.release) > 1 for version in versions.values()
    )


def tag_family(name: str) -> str:
    """All of a tag's name that stands before its first digit."""
    digit = re.search(r"\d", name)
    return name[: digit.start()] if digit else name


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def _globs(command: Sequence[str], option: str) -> list[str]:
    separate = [command[index + 1] for index, word in enumerate(command[:-1]) if word == option]
    return separate + [
        word.removeprefix(f"{option}=") for word in command if word.startswith(f"{option}=")
    ]
