# SPDX-License-Identifier: Apache-2.0
"""Which installed packages satisfy build requirements."""

import sys
from pathlib import Path

import pytest
from packaging.requirements import InvalidRequirement

from ci_doctor.environment.metadata_build import (
    BuiltMetadata,
    InstalledPackages,
    Unbuildable,
    build_system,
    site_directory,
)
from ci_doctor.environment.project import SETUPTOOLS_SCM, Project
from ci_doctor.environment.prover import Trial, judge_trial, same_version
from ci_doctor.model.outcome import Severity
from tests.support.cases import cases
from tests.support.packages import dist_info


def names(site: Path, *requires: str) -> tuple[set[str], str | None]:
    found, missing = InstalledPackages([site]).satisfy(requires)
    return {each.metadata["Name"] for each in found}, missing


def test_requirements_come_with_what_they_need(tmp_path: Path) -> None:
    dist_info(tmp_path, "aa-tool", "2.0", "bb_lib>=1", 'cc_extra; extra == "more"')
    dist_info(tmp_path, "bb-lib", "1.5")
    assert names(tmp_path, "AA.tool>=1") == ({"aa-tool", "bb-lib"}, None)
    assert names(tmp_path, "aa-tool[more]") == (set(), 'cc_extra; extra == "more"')


def test_a_version_that_does_not_fit_is_missing(tmp_path: Path) -> None:
    dist_info(tmp_path, "aa-tool", "2.0")
    assert names(tmp_path, "aa-tool<2") == (set(), "aa-tool<2")
    assert names(tmp_path, "aa-tool @ https://example.org/a.whl")[1] is not None
    assert names(tmp_path, "no-such-tool-of-ours")[1] == "no-such-tool-of-ours"


def test_of_two_versions_the_newest_that_fits_is_taken(tmp_path: Path) -> None:
    dist_info(tmp_path / "old", "aa-tool", "1.9")
    dist_info(tmp_path / "new", "aa-tool", "1.10")
    packages = InstalledPackages([tmp_path / "old", tmp_path / "new"])

    def version(*requires: str) -> list[str]:
        return [each.version for each in packages.satisfy(requires)[0]]

    assert version("aa-tool") == ["1.10"]
    assert version("aa-tool", "aa-tool<1.10") == ["1.9"]
    assert packages.satisfy(["aa-tool>=1.10", "aa-tool<1.10"])[1] is not None


def test_wheel_may_be_missing_only_beside_a_setuptools_that_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    dist_info(tmp_path, "setuptools", "65.5.0")
    assert InstalledPackages().satisfy(["setuptools", "wheel"])[1] == "wheel"
    dist_info(tmp_path, "setuptools", "70.1.0")
    assert InstalledPackages().satisfy(["wheel", "setuptools"])[1] is None
    assert InstalledPackages().satisfy(["wheel"])[1] == "wheel"


def test_a_requirement_for_another_python_needs_nothing(tmp_path: Path) -> None:
    assert names(tmp_path, 'zz-tool; python_version < "3.0"') == (set(), None)


def test_packages_that_need_each_other_end(tmp_path: Path) -> None:
    dist_info(tmp_path, "aa-tool", "1.0", "bb-lib")
    dist_info(tmp_path, "bb-lib", "1.0", "aa-tool")
    assert names(tmp_path, "aa-tool") == ({"aa-tool", "bb-lib"}, None)


def test_requirements_that_cannot_be_parsed_are_known() -> None:
    with pytest.raises(InvalidRequirement):
        InstalledPackages().satisfy(["a >= <"])


@pytest.mark.parametrize(
    "line",
    ["requires = [1]", 'requires = "setuptools"', "build-backend = 3", 'backend-path = "."'],
)
def test_a_build_system_of_wrong_types_cannot_be_built(tmp_path: Path, line: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[build-system]\n{line}\n")
    with pytest.raises(Unbuildable, match="wrong type"):
        build_system(tmp_path)


def test_packages_for_another_python_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "lib" / "python3.1" / "site-packages").mkdir(parents=True)
    assert site_directory(tmp_path / "bin" / "python") is None


PINNED = Project(directory=Path("/p"), name="x", tool="setuptools-scm", source=SETUPTOOLS_SCM)
UNPINNED = Project(directory=Path("/p"), name="x", tool="versioneer", advice="set tag_prefix")
RIGHT = BuiltMetadata(version="1.0")
OTHER = BuiltMetadata(version="2.0")
FAILED = BuiltMetadata(failure="InvalidVersion: 'nightly-cu13'")
TAGS = ("nightly-cu13",)


@cases(
    ("trial", "rule"),
    {
        "proven": (Trial(project=PINNED, expected="1.0", actual=RIGHT), None),
        "normal form": (Trial(project=PINNED, expected="v1.0", actual=RIGHT), None),
        "breaks on the tag": (
            Trial(project=PINNED, expected="1.0", tags=TAGS, actual=FAILED, reference=RIGHT),
            "version/broken-build",
        ),
        "another version": (
            Trial(project=PINNED, expected="1.0", tags=TAGS, actual=OTHER, reference=RIGHT),
            "version/broken-build",
        ),
        "fails anyway": (
            Trial(project=PINNED, expected="1.0", actual=FAILED, reference=FAILED),
            "version/not-proven",
        ),
        "not tried": (Trial(project=PINNED, expected="1.0", reason="no network"), None),
        "bears the tag": (Trial(project=UNPINNED, actual=RIGHT, reference=RIGHT), None),
        "the tag changes it": (
            Trial(project=UNPINNED, tags=TAGS, actual=OTHER, reference=RIGHT),
            "version/broken-build",
        ),
    },
)
def test_what_a_trial_means(trial: Trial, rule: str | None) -> None:
    findings = judge_trial(trial, demanded=False)
    assert [each.rule for each in findings] == ([] if rule is None else [rule])


def test_a_proof_that_was_demanded_and_not_made_is_a_warning() -> None:
    (finding,) = judge_trial(
        Trial(project=PINNED, expected="1.0", reason="no network"), demanded=True
    )
    assert (finding.rule, finding.severity) == ("version/not-proven", Severity.WARNING)
    assert "no network" in finding.summary


def test_what_is_broken_names_the_tags_and_how_to_go_on() -> None:
    trial = Trial(project=UNPINNED, tags=TAGS, actual=FAILED, reference=RIGHT)
    (finding,) = judge_trial(trial, demanded=False)
    assert finding.severity is Severity.ERROR
    assert [each.excerpt for each in finding.evidence] == ["refs/tags/nightly-cu13"]
    assert finding.remedy is not None
    assert finding.remedy.startswith("git tag --delete -- nightly-cu13  #")
    assert "set tag_prefix" in finding.remedy


def test_texts_that_are_no_versions_are_compared_as_they_are() -> None:
    assert same_version("1.0", "v1.0.0")
    assert same_version("nightly", "nightly")
    assert not same_version("nightly", "1.0")
