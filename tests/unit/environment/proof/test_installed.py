# SPDX-License-Identifier: Apache-2.0
"""Which installed packages satisfy build requirements."""

from pathlib import Path

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
