"""Each dependency of ours is pinned for users, and has its reason beside it."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# Extras of development.
OWN = {"all", "dev", "docs", "example"}
# CI has no GPU, and does not install it.
UNTRIED = {"nvidia-ml-py"}


def direct() -> Iterator[Requirement]:
    """What users install, directly."""
    lines = list(PROJECT["dependencies"])
    for name in EXTRAS.keys() - OWN:
        lines += EXTRAS[name]
    for line in lines:
        requirement = Requirement(line)
        if requirement.name != PROJECT["name"]:
            yield requirement


def pins() -> dict[str, str]:
    lines = (ROOT / "install" / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return dict(pairs)


def test_constraints_pin_each_dependency_within_its_bounds() -> None:
    pinned = pins()
    for requirement in direct():
        name = canonicalize_name(requirement.name)
        if name not in UNTRIED:
            assert requirement.specifier.contains(pinned[name]), f"{requirement}: {pinned[name]}"


def test_constraints_are_exact_and_sorted_by_name() -> None:
    names = list(pins())

    assert names == [canonicalize_name(name) for name in names]
    assert names == sorted(set(names), key=lambda name: f"{name}==")


def test_the_extra_all_has_every_extra_for_users() -> None:
    (requirement,) = (Requirement(line) for line in EXTRAS["all"])

    assert requirement.extras == EXTRAS.keys() - OWN


def test_each_dependency_has_its_reason_beside_it() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    names = {each.name for each in direct()}
    explained = {name for name in names for line in lines if re.search(rf'"{name}[>\[].*#', line)}

    assert names - explained == set()
