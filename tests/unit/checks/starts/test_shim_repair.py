"""The repair of a preload shim that was cut off."""

import sys
from pathlib import Path

import pytest

from ci_doctor.checks.check import Fix
from ci_doctor.checks.starts.shim_repair import shim_repair
from ci_doctor.errors import UsageError
from ci_doctor.preload.install import install_shims
from ci_doctor.preload.preload_rule import parse_rule
from ci_doctor.preload.shim_files import FINDER, MANIFEST, PATH_FILE
from ci_doctor.preload.site import read_site
from ci_doctor.preload.status import status
from tests.integration.preload_venvs import Venv

RULE = parse_rule("serve=json:dumps")


@pytest.fixture
def armed(tmp_path: Path) -> Venv:
    venv = Venv(Path(sys.executable), tmp_path / "v")
    install_shims([venv.python], [RULE], dry_run=False)
    return venv


def repair(venv: Venv) -> Fix | None:
    return shim_repair(venv.python, venv.site_dir, read_site(venv.site_dir))


def test_a_shim_that_was_cut_off_is_written_anew_with_its_rules(armed: Venv) -> None:
    finder = armed.site_dir / FINDER
    finder.write_bytes(finder.read_bytes()[:200])

    fix = repair(armed)
    assert fix is not None
    fix.apply()

    assert fix.words == f"write the preload shim in {armed.site_dir} anew, with serve=json:dumps"
    assert (status(armed.python).installed, status(armed.python).rules) == (True, (RULE,))
    assert repair(armed) is None


def test_a_rest_whose_rules_are_gone_is_removed(armed: Venv) -> None:
    for name in (MANIFEST, FINDER):
        path = armed.site_dir / name
        path.write_bytes(path.read_bytes()[:60])

    fix = repair(armed)
    assert fix is not None
    fix.apply()

    assert fix.words.startswith("remove what is left")
    assert read_site(armed.site_dir).is_empty


@pytest.mark.parametrize("change", ["edit", "remove"])
def test_what_somebody_has_changed_stays(armed: Venv, change: str) -> None:
    path = armed.site_dir / PATH_FILE
    if change == "edit":
        path.write_bytes(path.read_bytes() + b"# mine\n")
    else:
        path.unlink()

    assert repair(armed) is None


def test_a_directory_that_is_not_the_interpreters_is_refused(armed: Venv, tmp_path: Path) -> None:
    finder = armed.site_dir / FINDER
    finder.write_bytes(finder.read_bytes()[:200])
    other = Venv(Path(sys.executable), tmp_path / "w")

    fix = shim_repair(other.python, armed.site_dir, read_site(armed.site_dir))
    assert fix is not None

    with pytest.raises(UsageError, match="not in"):
        fix.apply()
