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


def test_a_sound_environment_is_ok_with_metadata_of_each_form(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    # Beside the source of an editable installation they are no copy.
    source = tmp_path / "source"
    (source / "engine.egg-info").mkdir(parents=True)
    (source / "engine.egg-info" / "PKG-INFO").write_text("Name: engine\nVersion: 7\n\n")
    (site_of(python) / "__editable__.engine.pth").write_text(f"{source}\n")
    text = "Metadata-Version: 1.1\nName: iii\nVersion: 1.0\n"
    (site_of(python) / "iii-1.0-py3.11.egg-info").write_text(text)

    copies, whole = examine(duplicates, python), examine(installations, python)

    assert (copies.status, copies.problems) == (CheckStatus.OK, ())
    assert copies.summary.endswith(" distributions installed")
    assert (whole.status, whole.unknown) == (CheckStatus.OK, None)


def test_two_versions_in_one_directory_are_an_error_and_the_remedy_installs_the_last(
    python: Path, examine: Examine
) -> None:
    site = site_of(python)
    install(site, "engine", "1.1")
    # Names are compared in their normal form.
    install(site, "Some.Other", "1.0", files={"a.py": b""})
    last = install(site, "some-other", "0.9", files={"b.py": b""})
    os.utime(last, (4e9, 4e9))

    problems = examine(duplicates, python).problems
    engine, other = sorted(problems, key=lambda each: each.finding.summary)

    assert engine.finding.rule == DISTRIBUTION_TWICE.id
    assert engine.finding.severity == "error"
    assert "engine is installed twice" in engine.finding.summary
    assert "as 1.0 and 1.1" in engine.finding.summary
    assert "some-other is installed twice" in other.finding.summary
    assert str(other.finding.remedy).endswith(" some-other==0.9")


def test_a_version_that_pythonpath_puts_before_another_is_a_warning(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    overlay = tmp_path / "overlay"
    install(overlay, "engine", "9.0")

    result = examine(duplicates, python, PYTHONPATH=str(overlay))

    (found,) = result.problems
    assert result.status is CheckStatus.WARNING
    assert f"engine 9.0 in {overlay} hides engine 1.0" in found.finding.summary
    # It is not to be uninstalled.
    assert f"leave {overlay} out of PYTHONPATH" in str(found.finding.remedy)


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
    # The version that was there.
    assert str(engine.finding.remedy).endswith(" engine==1.0")


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


def test_a_link_of_setup_py_develop_that_leads_nowhere_is_an_error_and_a_path_file_a_warning(
    python: Path, examine: Examine
) -> None:
    site = site_of(python)
    (site / "own.pth").write_text("# a comment\nimport sys\n/gone/lib\n")
    warned = examine(editable, python)
    (site / "own.pth").unlink()
    (site / "tool.egg-link").write_text("/gone/source\n.")
    (found,) = examine(editable, python).problems

    assert warned.status is CheckStatus.WARNING
    assert "leads to /gone/lib" in warned.problems[0].finding.summary
    assert found.finding.severity == "error"
