# SPDX-License-Identifier: Apache-2.0
import json
import os
from pathlib import Path

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.python.packages import (
    DISTRIBUTION_TWICE,
    EDITABLE_BROKEN,
    INSTALLATION_INTERRUPTED,
    duplicates,
    editable,
    installations,
)
from tests.support.packages import install, site_of
from tests.unit.checks.python.conftest import Examine


def test_a_sound_environment_is_ok(python: Path, examine: Examine) -> None:
    result = examine(duplicates, python)

    assert result.status is CheckStatus.OK
    assert result.summary == "2 distributions installed"


def test_two_versions_in_one_directory_are_an_error(python: Path, examine: Examine) -> None:
    install(site_of(python), "engine", "1.1")

    (found,) = examine(duplicates, python).problems

    assert found.finding.rule == DISTRIBUTION_TWICE.id
    assert found.finding.severity == "error"
    assert "engine is installed twice" in found.finding.summary
    assert "as 1.0 and 1.1" in found.finding.summary


def test_names_are_compared_in_their_normal_form(python: Path, examine: Examine) -> None:
    site = site_of(python)
    install(site, "Some.Engine", "1.0", files={"a.py": b""})
    install(site, "some-engine", "2.0", files={"b.py": b""})

    (found,) = examine(duplicates, python).problems

    assert "some-engine is installed twice" in found.finding.summary


def test_a_version_that_pythonpath_puts_before_another_is_a_warning(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    overlay = tmp_path / "overlay"
    install(overlay, "engine", "9.0")

    result = examine(duplicates, python, PYTHONPATH=str(overlay))

    assert result.status is CheckStatus.WARNING
    assert f"engine 9.0 in {overlay} hides engine 1.0" in result.problems[0].finding.summary


def test_the_metadata_beside_the_source_of_an_editable_installation_are_no_copy(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    source = tmp_path / "source"
    (source / "engine.egg-info").mkdir(parents=True)
    (source / "engine.egg-info" / "PKG-INFO").write_text("Name: engine\nVersion: 7\n\n")
    (site_of(python) / "__editable__.engine.pth").write_text(f"{source}\n")

    assert examine(duplicates, python).problems == ()


def test_the_remedy_installs_the_version_that_came_last(python: Path, examine: Examine) -> None:
    folder = install(site_of(python), "engine", "0.9")
    os.utime(folder, (4e9, 4e9))

    (found,) = examine(duplicates, python).problems

    assert str(found.finding.remedy).endswith(" engine==0.9")


def test_a_copy_in_pythonpath_is_not_to_be_uninstalled(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    overlay = tmp_path / "overlay"
    install(overlay, "engine", "9.0")

    (found,) = examine(duplicates, python, PYTHONPATH=str(overlay)).problems

    assert f"leave {overlay} out of PYTHONPATH" in str(found.finding.remedy)


def test_complete_installations_are_ok(python: Path, examine: Examine) -> None:
    assert examine(installations, python).status is CheckStatus.OK


def test_a_folder_that_pip_has_put_aside_is_a_warning(python: Path, examine: Examine) -> None:
    aside = site_of(python) / "~ngine"
    aside.mkdir()

    result = examine(installations, python)

    assert result.status is CheckStatus.WARNING
    (found,) = result.problems
    assert found.finding.rule == INSTALLATION_INTERRUPTED.id
    assert found.finding.remedy == f"rm -r '{aside}'"


def test_metadata_that_are_missing_or_empty_are_an_error(python: Path, examine: Examine) -> None:
    site = site_of(python)
    (site / "engine-1.0.dist-info" / "METADATA").unlink()
    (site / "frame-2.0.dist-info" / "METADATA").write_text("")

    engine, frame = examine(installations, python).problems

    assert "there is no METADATA" in engine.finding.summary
    assert "METADATA names no name and version" in frame.finding.summary
    assert engine.finding.severity == "error"


def test_a_missing_record_is_an_error_if_the_installer_writes_one(
    python: Path, examine: Examine
) -> None:
    site = site_of(python)
    (site / "engine-1.0.dist-info" / "RECORD").unlink()
    (site / "frame-2.0.dist-info" / "RECORD").write_text("")
    folder = install(site, "other", "1")
    (folder / "RECORD").unlink()
    (folder / "INSTALLER").write_text("conda\n")

    engine, frame = examine(installations, python).problems

    assert "engine 1.0 is not completely installed: there is no RECORD" in engine.finding.summary
    assert "RECORD is empty" in frame.finding.summary


def test_the_remedy_installs_the_version_that_was_there(python: Path, examine: Examine) -> None:
    folder = install(site_of(python), "late", "1.5")
    (folder / "METADATA").unlink()

    (late,) = examine(installations, python).problems

    assert str(late.finding.remedy).endswith(" late==1.5")


def test_an_egg_info_that_is_a_file_is_known(python: Path, examine: Examine) -> None:
    text = "Metadata-Version: 1.1\nName: iii\nVersion: 1.0\n"
    (site_of(python) / "iii-1.0-py3.11.egg-info").write_text(text)

    assert examine(installations, python).unknown is None


def _install_editable(python: Path, source: Path) -> None:
    files = {"__editable__.tool-1.pth": f"{source}\n".encode()}
    folder = install(site_of(python), "tool", "1", files=files)
    direct = {"url": source.as_uri(), "dir_info": {"editable": True}}
    (folder / "direct_url.json").write_text(json.dumps(direct))


def test_an_editable_installation_with_its_source_is_ok(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    source = tmp_path / "a source"
    source.mkdir()
    _install_editable(python, source)

    result = examine(editable, python)

    assert result.status is CheckStatus.OK
    assert result.problems == ()
    assert result.summary == "1 editable installation by direct_url.json"


def test_a_source_that_is_gone_is_one_error(python: Path, tmp_path: Path, examine: Examine) -> None:
    _install_editable(python, tmp_path / "gone")

    (found,) = examine(editable, python).problems

    assert found.finding.rule == EDITABLE_BROKEN.id
    assert found.finding.severity == "error"
    assert f"editable installation of {tmp_path}/gone" in found.finding.summary


def test_a_finder_that_maps_to_nothing_is_an_error(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    source = tmp_path / "source"
    (source / "there").mkdir(parents=True)
    (source / "single.py").write_text("")
    mapping = {name: str(source / name) for name in ("there", "single", "moved")}
    finder = site_of(python) / "__editable___tool_1_finder.py"
    finder.write_text(f"MAPPING: dict[str, str] = {mapping!r}\nNAMESPACES = {{}}\n")

    (found,) = examine(editable, python).problems

    assert f"leads to {source}/moved" in found.finding.summary


def test_a_link_of_setup_py_develop_that_leads_nowhere_is_an_error(
    python: Path, examine: Examine
) -> None:
    (site_of(python) / "tool.egg-link").write_text("/gone/source\n.")

    (found,) = examine(editable, python).problems

    assert found.finding.severity == "error"


def test_a_path_file_of_unknown_origin_that_leads_nowhere_is_a_warning(
    python: Path, examine: Examine
) -> None:
    text = "# a comment\nimport sys\n/gone/lib\n"
    (site_of(python) / "own.pth").write_text(text)

    result = examine(editable, python)

    assert result.status is CheckStatus.WARNING
    assert "leads to /gone/lib" in result.problems[0].finding.summary
