# SPDX-License-Identifier: Apache-2.0
"""Sorting tags and telling `git describe` about them."""

import fnmatch
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from ci_doctor.environment.tags import (
    Tags,
    exclusions,
    is_git_describe,
    is_release,
    may_rest_on,
    picked_tag,
    reads_oddly,
    sort_tags,
    without_foreign_text,
    without_tags,
)

NAMES = st.lists(st.text("abv019.-/", min_size=1, max_size=8), unique=True, max_size=12)


@given(NAMES, NAMES)
def test_exclusions_match_every_unparsable_tag_and_no_version(
    unparsable: list[str], versions: list[str]
) -> None:
    versions = [name for name in versions if name not in unparsable]
    patterns = exclusions(unparsable, versions)
    assert all(
        any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns) for name in unparsable
    )
    assert not any(fnmatch.fnmatchcase(name, pattern) for name in versions for pattern in patterns)


def test_a_family_without_versions_is_one_pattern() -> None:
    assert exclusions(["nightly-cu12", "nightly-cu13", "v1-x"], ["v1.0"]) == ("nightly-cu*", "v1-x")


def test_only_tags_that_the_command_could_pick_are_sorted() -> None:
    command = ["git", "describe", "--match", "v*", "--match=pkg-*", "--exclude", "*-rc"]
    tags = sort_tags(
        ["v1", "nightly-cu13", "v2-rc", "pkg-x"],
        command,
        lambda name: Version("1") if name == "v1" else None,
    )
    assert tuple(tags.versions) == ("v1",)
    assert tags.unparsable == ("pkg-x",)


def test_exclusions_come_before_a_commit_and_a_double_dash() -> None:
    tags = Tags(versions={}, unparsable=("1$b",))
    assert without_tags(["git", "-C", ".", "describe", "--tags", "HEAD"], tags) == [
        *("git", "-C", ".", "describe", "--exclude=1$b", "--tags", "HEAD")
    ]


MANY = tuple(f"v0.5.{number}-cu13" for number in range(10_000))


def test_a_few_versions_are_named_where_many_tags_would_have_to_be_excluded() -> None:
    tags = Tags(versions={"v1.0": Version("1.0"), "v2.0": Version("2.0")}, unparsable=MANY)
    command = ["git", "describe", "--match", "v*", "--tags", "--match=*[0-9]*", "HEAD"]
    assert without_tags(command, tags) == [
        *("git", "describe", "--match=v1.0", "--match=v2.0", "--tags", "HEAD")
    ]


def test_no_version_among_many_tags_matches_none() -> None:
    command = without_tags(["git", "describe"], Tags(versions={}, unparsable=MANY))
    assert len(command) < 60


def test_branches_that_describe_may_pick_stay_possible() -> None:
    tags = Tags(versions={"v1.0": Version("1.0")}, unparsable=MANY)
    command = without_tags(["git", "describe", "--all"], tags)
    assert not any(word.startswith("--match") for word in command)


def test_what_counts_as_git_describe() -> None:
    assert is_git_describe(["/usr/bin/git", "describe"])
    assert not is_git_describe(["./describe.sh"])
    assert not is_git_describe(["git", "log"])
    assert not is_git_describe([])


def test_the_picked_tag_may_hold_what_describe_appends() -> None:
    asked: list[tuple[str, ...]] = []

    def git(*arguments: str) -> str | None:
        asked.append(arguments)
        return "v1-2-gabc-3-gdef0"

    assert picked_tag(git, ["git", "describe", "--dirty", "--long"]) == "v1-2-gabc"
    assert asked == [("describe", "--long")]
    assert picked_tag(lambda *_: None, ["git", "describe"]) is None
    assert picked_tag(lambda *_: "v1.0", ["git", "describe"]) == "v1.0"


def test_which_readings_are_odd() -> None:
    assert reads_oddly("13", {"13": Version("13"), "v1.2": Version("1.2")})
    assert not reads_oddly("v255", {"v255": Version("255"), "v254": Version("254")})
    assert not reads_oddly("0.5", {})


def _split(tag: str) -> tuple[str, str] | None:
    """As setuptools-scm's regex splits a tag."""
    match = re.match(r"^((?:[\w-]+-)?)([vV]?\d+(?:\.\d+){0,2}[^\+]*)", tag)
    return (match[1], match[2]) if match else None


@pytest.mark.parametrize(
    "tag",
    ["nightly-2026-04-22", "2026-04-22", "v2026-04", "nightly-20260422", "nightly-13", "cu12-3"],
)
def test_a_tag_whose_version_is_not_its_own_text_is_left_out(tag: str) -> None:
    tags = Tags(versions={tag: Version("22"), "v1.0": Version("1.0")}, unparsable=("cu13",))
    kept = without_foreign_text(tags, _split, "some-pkg")
    assert kept == Tags(versions={"v1.0": Version("1.0")}, unparsable=("cu13", tag))


@pytest.mark.parametrize(
    "tag", ["v22", "22", "release-22", "some_pkg-22", "other-pkg-1.2", "llama-3-v1.2", "2026.04.22"]
)
def test_a_tag_whose_version_is_its_own_text_is_kept(tag: str) -> None:
    tags = Tags(versions={tag: Version("1"), "v1.0": Version("1.0")}, unparsable=())
    assert without_foreign_text(tags, _split, "some-pkg") == tags


def test_a_date_behind_a_word_is_left_out_beside_releases_alone() -> None:
    dated: dict[str, Any] = {
        "nightly-2026.04.22": Version("2026.4.22"),
        "nightly-2026.4": Version("2026.4"),
    }
    alone = Tags(versions=dated, unparsable=())
    assert without_foreign_text(alone, _split, "some-pkg") == alone
    beside = Tags(versions={**dated, "v1.0": Version("1.0")}, unparsable=())
    kept = without_foreign_text(beside, _split, "some-pkg")
    assert (list(kept.versions), kept.unparsable) == (["v1.0"], tuple(dated))


RELEASES = ("1.0", "v1.2.3", "V2", "release-1.2", "pkg/v1.0rc1", "my-pkg-1.0.post1", "v1.0+cu13")
OTHERS = (
    *("nightly", "nightly-cu13", "v0.5.0-cu13", "release", "cu13", ""),
    *("nightly-2026-04-22", "nightly-2026-04", "nightly-20260422", "nightly-13", "2026-04"),
)


def test_which_tags_are_releases() -> None:
    assert [tag for tag in (*RELEASES, *OTHERS) if is_release(tag)] == list(RELEASES)


@pytest.mark.parametrize(
    ("version", "tag", "may"),
    [
        ("1.2.3", "v1.2.3", True),
        ("1.2.3.post4+gabc", "pkg-1.2.3", True),
        ("1.2.4.dev2", "1.2.3", True),
        ("1.3.0.dev2", "v1.2.3", True),
        ("2.0.dev1", "v1.2.3", True),
        ("1.2.3rc2.dev1", "v1.2.3rc1", True),
        ("1.2.3.17", "v1.2.3", True),
        ("1.3", "release-1.2", True),
        ("0.0.1.dev3", "other-7.1", False),
        ("2.1.dev3", "other-7.1", False),
        ("1.2.5", "v1.2.3", False),
        ("1.3.4", "v1.2.3", False),
        ("0+unknown", "v1.2.3", False),
        ("1.2.3", "nightly-cu13", False),
        ("no version", "v1.2.3", False),
    ],
)
def test_a_version_rests_on_a_release_that_it_repeats_or_counts_up_and_on_no_other(
    version: str, tag: str, may: bool
) -> None:
    assert may_rest_on(version, tag) is may
