# SPDX-License-Identifier: Apache-2.0
"""Which installed packages satisfy build requirements."""

import sys
from pathlib import Path

import pytest

from ci_doctor.environment.proof.installed import InstalledPackages, are_valid, site_directory


def install(site: Path, name: str, version: str, *requires: str) -> None:
    directory = site / f"{name}-{version}.dist-info"
    directory.mkdir(parents=True)
    lines = [f"Requires-Dist: {each}" for each in requires]
    text = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines])
    (directory / "METADATA").write_text(f"{text}\n")


def names(site: Path, *requires: str) -> tuple[set[str], str | None]:
    found, missing = InstalledPackages([site]).satisfy(requires)
    return {each.metadata["Name"] for each in found}, missing


def test_requirements_come_with_what_they_need(tmp_path: Path) -> None:
    install(tmp_path, "aa-tool", "2.0", "bb_lib>=1", 'cc_extra; extra == "more"')
    install(tmp_path, "bb-lib", "1.5")
    assert names(tmp_path, "AA.tool>=1") == ({"aa-tool", "bb-lib"}, None)
    assert names(tmp_path, "aa-tool[more]") == (set(), 'cc_extra; extra == "more"')


def test_a_version_that_does_not_fit_is_missing(tmp_path: Path) -> None:
    install(tmp_path, "aa-tool", "2.0")
    assert names(tmp_path, "aa-tool<2") == (set(), "aa-tool<2")
    assert names(tmp_path, "aa-tool @ https://example.org/a.whl")[1] is not None
    assert names(tmp_path, "no-such-tool-of-ours")[1] == "no-such-tool-of-ours"


def test_of_two_versions_the_newest_that_fits_is_taken(tmp_path: Path) -> None:
    install(tmp_path / "old", "aa-tool", "1.9")
    install(tmp_path / "new", "aa-tool", "1.10")
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
    install(tmp_path, "setuptools", "65.5.0")
    assert InstalledPackages().satisfy(["setuptools", "wheel"])[1] == "wheel"
    install(tmp_path, "setuptools", "70.1.0")
    assert InstalledPackages().satisfy(["wheel", "setuptools"])[1] is None
    assert InstalledPackages().satisfy(["wheel"])[1] == "wheel"


def test_a_requirement_for_another_python_needs_nothing(tmp_path: Path) -> None:
    assert names(tmp_path, 'zz-tool; python_version < "3.0"') == (set(), None)


def test_packages_that_need_each_other_end(tmp_path: Path) -> None:
    install(tmp_path, "aa-tool", "1.0", "bb-lib")
    install(tmp_path, "bb-lib", "1.0", "aa-tool")
    assert names(tmp_path, "aa-tool") == ({"aa-tool", "bb-lib"}, None)


def test_requirements_that_cannot_be_parsed_are_known() -> None:
    assert are_valid(["a>=1", "b[c]"])
    assert not are_valid(["a >= <"])


def test_packages_for_another_python_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "lib" / "python3.1" / "site-packages").mkdir(parents=True)
    assert site_directory(tmp_path / "bin" / "python") is None
