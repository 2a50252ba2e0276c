# SPDX-License-Identifier: Apache-2.0
"""Which files a glob of the settings means."""

import pytest

from ci_doctor.lint.path_pattern import matches


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("vendor/**", ["vendor/a.sh", "vendor/x/y.sh"], ["vendor", "x/vendor/a.sh"]),
        ("vendor/", ["vendor/a.sh"], ["vendored/a.sh"]),
        ("*.sh", ["a.sh", "x/y/a.sh"], ["a.sh.txt"]),
        ("ci/*.sh", ["ci/a.sh"], ["ci/x/a.sh"]),
        ("**/old/**", ["old/a", "x/y/old/z/a"], ["older/a"]),
        ("a/**/b.sh", ["a/b.sh", "a/x/y/b.sh"], ["b.sh"]),
        ("ci/?[!0-9].sh", ["ci/ab.sh"], ["ci/a1.sh", "ci/a/.sh"]),
        ("ci/[z-a].sh", [], ["ci/z.sh"]),
        ("*.{yml,yaml}", ["x/p.yml", "p.yaml"], ["p.toml"]),
        ("a{b", ["a{b"], ["ab"]),
    ],
)
def test_a_pattern_matches_as_git_does(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [matches(pattern, name) for name in yes] == [True] * len(yes)
    assert [matches(pattern, name) for name in no] == [False] * len(no)


def test_many_stars_take_no_exponential_time() -> None:
    assert not matches("**/a/" * 12 + "b", "a/" * 60 + "c")
