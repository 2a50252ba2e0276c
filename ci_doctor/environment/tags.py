# SPDX-License-Identifier: Apache-2.0
"""Pure. Which tags of a repository are versions, and how `git describe` leaves the others out."""

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from packaging.version import Version

# `git describe --long` appends this (git-describe(1)).
_DESCRIBED = re.compile(r"^(?P<tag>.+)-\d+-g[0-9a-f]+$")

# `v1.2`, `release-1.2`, `pkg/v1.2rc1`: a prefix of words, then a version by PEP 440.
_RELEASE = re.compile(r"^(?P<prefix>(?:[A-Za-z][\w.]*[-_/])*)(?P<version>[vV]?\d.*)$")
# A prefix that ends in a number: what follows is the rest of a date or of a longer number.
_NUMBER_BEFORE = re.compile(r"(?:^|[-_/.])[vV]?\d+[-_/.]$")
_DATE = re.compile(r"^(?:19|20)\d\d[.]?(?:0?[1-9]|1[0-2])(?:[.]?(?:0?[1-9]|[12]\d|3[01]))?(?![\d])")
# Words that precede the number of a release. Before another word, such as `nightly`, `build` or `cu`,
# a bare number counts something else.
_RELEASE_WORDS: Final = frozenset(
    {"", "release", "releases", "rel", "version", "ver", "tag", "tags"}
)
# No tag can have this name (git-check-ref-format(1)), so it matches none.
_NO_TAG = "."
# So many exclusions cost nothing that could be measured.
_FEW = 50


# Runs git in one repository; returns its standard output, or None if it failed.
Git = Callable[..., str | None]


class Tags(Struct, frozen=True, kw_only=True):
    """The tags that a backend could pick: `versions` by name, and those that do not parse."""

    versions: dict[str, Any]
    unparsable: tuple[str, ...]

    @property
    def exclusions(self) -> tuple[str, ...]:
        """Patterns for `git describe --exclude` that match every unparsable tag and no other."""
        return exclusions(self.unparsable, self.versions)


class TagGapKind(StrEnum):
    """How the tags of a clone differ from those of its remote, where the version depends on it."""

    # The remote has a tag on a commit of this history, and the clone has not.
    ABSENT = "absent"
    # Both have the tag, on different commits.
    MOVED = "moved"
    # The tag that decides is in the clone alone.
    LOCAL = "local"
    # The remote does not answer.
    SILENT = "silent"
    # git refuses to read the repository.
    UNREADABLE = "unreadable"


class TagGap(Struct, frozen=True, kw_only=True):
    """One difference: its `tag` if one is known, and the `remote` that was asked."""

    kind: TagGapKind
    remote: str = ""
    tag: str = ""


class Described(Struct, frozen=True, kw_only=True):
    """A checkout as a version tool describes it, with the unparsable tags left out.

    `tag` is None if no tag is usable, `distance` the commits since it (None if unknown).
    `unparsable` names the tags reachable from HEAD that were left out; `breaks_on` is the one that
    the tool would otherwise have picked. `suspicious` is the text that was read as version, if
    `tag` is hardly a release. `repository` is None if the version comes from files. `node` is the
    commit as the tool spells it, None if the tool names none. `shallow`: the clone's history is cut
    where the version depends on it. `gap` is a difference to the tags of the remote.
    `unreleased` names the remote that answered and has no tag of a release, if the clone has none
    either.
    """

    version: str
    repository: str | None = None
    tag: str | None = None
    distance: int | None = None
    node: str | None = None
    dirty: bool = False
    shallow: bool = False
    gap: TagGap | None = None
    unreleased: str | None = None
    unparsable: tuple[str, ...] = ()
    breaks_on: str | None = None
    suspicious: str | None = None

    @property
    def is_tagged(self) -> bool:
        """Whether the tag is on HEAD itself."""
        return self.tag is not None and self.distance == 0


def list_tags(git: Git, *, reachable: bool = False) -> tuple[str, ...]:
    """Every tag of the repository; `reachable`: those of HEAD's history alone, newest first."""
    options = ("--merged=HEAD", "--sort=-creatordate") if reachable else ()
    output = git("for-each-ref", *options, "--format=%(refname:strip=2)", "refs/tags")
    return tuple((output or "").splitlines())


def disturbing_tags(
    git: Git, command: Sequence[str], tags: Tags
) -> tuple[tuple[str, ...], str | None]:
    """The unparsable tags reachable from HEAD, and the one that `command` itself would pick.

    Only these can disturb a build.
    """
    unparsable = set(tags.unparsable)
    listed = list_tags(git, reachable=True) if unparsable else ()
    reachable = tuple(name for name in listed if name in unparsable)
    nearest = picked_tag(git, command) if reachable else None
    return reachable, nearest if nearest in tags.unparsable else None


def sort_tags(
    names: Iterable[str], command: Sequence[str], parse: Callable[[str], "Version | None"]
) -> Tags:
    """Sort the tags that the describe `command` could pick by whether `parse` returns a version."""
    included = list(_globs(command, "--match"))
    excluded = list(_globs(command, "--exclude"))
    parsed = {
        name: parse(name)
        for name in names
        if (not included or _matches(name, included)) and not _matches(name, excluded)
    }
    return Tags(
        versions={name: version for name, version in parsed.items() if version is not None},
        unparsable=tuple(name for name, version in parsed.items() if version is None),
    )


def exclusions(unparsable: Iterable[str], versions: Iterable[str]) -> tuple[str, ...]:
    """Patterns that match every unparsable tag and no version.

    A family (`nightly-cu*`: all that precedes the first digit) becomes one pattern if no version
    belongs to it, because thousands of patterns would be slow and could be too long for one command
    line. Names need no escaping: git forbids glob characters in them (git-check-ref-format(1)).
    """
    families = {tag_family(name) for name in versions}
    # A dict, and not a set, keeps the order of the tags.
    patterns: dict[str, None] = {}
    for name in unparsable:
        family = tag_family(name)
        shared = not family or any(other.startswith(family) for other in families)
        patterns[name if shared else f"{family}*"] = None
    return tuple(patterns)


def is_git_describe(command: Sequence[str]) -> bool:
    """Whether `command` is a `git describe`, which has an option to exclude tags."""
    return bool(command) and command[0].rpartition("/")[2] == "git" and "describe" in command


def without_tags(command: Sequence[str], tags: Tags) -> list[str]:
    """A `git describe` command that leaves out the unparsable ones of `tags`.

    git holds every tag against every pattern, so that ten thousand exclusions take ten seconds. If
    the versions are fewer, they are named instead; they fit the command's own patterns already.
    """
    place = list(command).index("describe") + 1
    patterns = tags.exclusions
    # With --all, --match would leave out the branches.
    if len(patterns) <= max(len(tags.versions), _FEW) or "--all" in command:
        options = [f"--exclude={pattern}" for pattern in patterns]  # git >= 2.13
        return [*command[:place], *options, *command[place:]]
    options = [f"--match={name}" for name in tags.versions] or [f"--match={_NO_TAG}"]
    return [*command[:place], *options, *_without_option(command[place:], "--match")]


def _without_option(words: Sequence[str], option: str) -> list[str]:
    """`words` without `option` and its values."""
    kept = []
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word == option:
            is_value = True
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept


def picked_tag(git: Git, command: Sequence[str]) -> str | None:
    """The tag that a `git describe` command picks; None if it picks none."""
    # --dirty is about the working tree, and makes git compare every file.
    described = git(*[word for word in command[1:] if not word.startswith("--dirty")])
    if not described:
        return None
    match = _DESCRIBED.match(described)
    return match["tag"] if match else described


def without_foreign_text(
    tags: Tags, read: Callable[[str], tuple[str, str] | None], name: str | None
) -> Tags:
    """`tags` without those whose version is not their own text after the project's prefix.

    `read` splits a tag into what precedes the version and the version as it is written; `name` is
    the distribution's. `nightly-2026-04-22` is read as 22. `nightly-2026.04.22` is a date, and is
    left out beside releases that are none.
    """
    foreign: list[str] = []
    dated: list[str] = []
    for tag in tags.versions:
        parts = read(tag)
        if parts is not None and not is_own_text(*parts, name):
            foreign.append(tag)
        elif parts is not None and is_dated(*parts, name):
            dated.append(tag)
    releases = len(tags.versions) - len(foreign) - len(dated)
    left_out = [*foreign, *dated] if releases else foreign
    kept = {tag: version for tag, version in tags.versions.items() if tag not in {*left_out}}
    return Tags(versions=kept, unparsable=(*tags.unparsable, *left_out))


def reads_oddly(text: str, versions: Mapping[str, "Version"]) -> bool:
    """Whether `text`, a number without a dot, stands alone among versions that have one."""
    return "." not in text and any(len(version.release) > 1 for version in versions.values())


def tag_family(name: str) -> str:
    """The part of a tag's name before its first digit."""
    digit = re.search(r"\d", name)
    return name[: digit.start()] if digit else name


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def _globs(command: Sequence[str], option: str) -> Iterator[str]:
    """The values of `option`, written as two words or as one with `=`."""
    for index, word in enumerate(command):
        if word == option and index + 1 < len(command):
            yield command[index + 1]
        elif word.startswith(f"{option}="):
            yield word.removeprefix(f"{option}=")


def is_release(tag: str) -> bool:
    """Whether a tag's name is a version by PEP 440, with or without a prefix before it."""
    from packaging.version import InvalidVersion, Version

    match = _RELEASE.match(tag)
    if match is None:
        return False
    text = match["version"]
    try:
        Version(text)
    except InvalidVersion:
        return False
    # `2026-04` is a post-release by PEP 440 alone.
    if re.fullmatch(r"\d+(-\d+)+", text) and _DATE.match(text.replace("-", ".")):
        return False
    return is_own_text(match["prefix"], text, None)


def may_rest_on(version: str, tag: str) -> bool:
    """Whether a tool may have computed `version` from the release `tag`: it, or the next one.

    Tools add to the numbers of the tag, or count one of them up and put zeros behind it.
    """
    from packaging.version import InvalidVersion, Version

    match = _RELEASE.match(tag)
    try:
        numbers = Version(version).release
        of_tag = Version(match["version"]).release if match else ()
    except InvalidVersion:
        return False
    length = max(len(numbers), len(of_tag))
    numbers += (0,) * (length - len(numbers))
    padded = of_tag + (0,) * (length - len(of_tag))
    counted_up = {
        (*padded[:place], padded[place] + 1, *[0] * (length - place - 1)) for place in range(length)
    }
    return match is not None and (numbers[: len(of_tag)] == of_tag or numbers in counted_up)


def is_own_text(prefix: str, text: str, name: str | None) -> bool:
    """Whether the version `text` is a tag's own text after `prefix`, which is a project's.

    `name` is the project's distribution. `nightly-2026-04-22` is read as `nightly-2026-04-` and 22,
    `nightly-13` as `nightly-` and 13: neither is a version of anything. A dotted version may follow
    any words.
    """
    if _is_of_project(prefix, name):
        return True
    if _NUMBER_BEFORE.search(prefix) and text[:1].isdigit():
        return False
    return "." in text


def is_dated(prefix: str, text: str, name: str | None) -> bool:
    """Whether `text` is a date behind a word that names neither a release nor the project."""
    return not _is_of_project(prefix, name) and _DATE.match(text.lstrip("vV")) is not None


def _is_of_project(prefix: str, name: str | None) -> bool:
    words = re.sub(r"[-_./@=]+", "-", prefix.lower()).strip("-")
    words = words.removesuffix("v").strip("-") if words == "v" or words.endswith("-v") else words
    return words in _RELEASE_WORDS or (
        name is not None and words == re.sub(r"[-_.]+", "-", name.lower())
    )
