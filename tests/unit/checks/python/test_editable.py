import json
from pathlib import Path

from ci_doctor.checks.python.editable import CHECK
from ci_doctor.checks.python.rules import EDITABLE_BROKEN

from ci_doctor.checks.check import CheckStatus
from tests.support.packages import install, site_of
from tests.unit.checks.python.conftest import Examine


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

    result = examine(CHECK, python)

    assert result.status is CheckStatus.OK
    assert result.problems == ()
    assert result.summary == "1 editable installation by direct_url.json"


def test_a_source_that_is_gone_is_one_error(python: Path, tmp_path: Path, examine: Examine) -> None:
    _install_editable(python, tmp_path / "gone")

    (found,) = examine(CHECK, python).problems

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

    (found,) = examine(CHECK, python).problems

    assert f"leads to {source}/moved" in found.finding.summary


def test_a_link_of_setup_py_develop_that_leads_nowhere_is_an_error(
    python: Path, examine: Examine
) -> None:
    (site_of(python) / "tool.egg-link").write_text("/gone/source\n.")

    (found,) = examine(CHECK, python).problems

    assert found.finding.severity == "error"


def test_a_path_file_of_unknown_origin_that_leads_nowhere_is_a_warning(
    python: Path, examine: Examine
) -> None:
    text = "# a comment\nimport sys\n/gone/lib\n"
    (site_of(python) / "own.pth").write_text(text)

    result = examine(CHECK, python)

    assert result.status is CheckStatus.WARNING
    assert "leads to /gone/lib" in result.problems[0].finding.summary
