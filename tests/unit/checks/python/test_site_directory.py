import sys
from pathlib import Path

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.interpreter_starts import read_starts
from ci_doctor.checks.python.site_directory import SiteKind, pythonpath_entries, site_directories
from tests.support.checks import check_context
from tests.support.packages import VERSION, make_venv, site_of
from tests.unit.checks.python.conftest import ENVIRON


def _kinds(context: CheckContext) -> dict[str, SiteKind]:
    (start,) = read_starts(context)
    assert start.state is not None
    return {str(site.path): site.kind for site in site_directories(start.state, context)}


def test_the_directories_of_an_environment_are_told_apart(python: Path, tmp_path: Path) -> None:
    for name in ("overlay", "source"):
        (tmp_path / name).mkdir()
    (site_of(python) / "own.pth").write_text(f"{tmp_path}/source\n")
    environ = {**ENVIRON, "PYTHONPATH": f"{tmp_path}/source/../overlay/:{site_of(python)}"}

    kinds = _kinds(check_context(tmp_path, environ=environ, pythons=[python]))

    # An environment that PYTHONPATH names too stays the environment's own.
    assert kinds == {
        f"{tmp_path}/overlay": SiteKind.PYTHONPATH,
        str(site_of(python)): SiteKind.OWN,
        f"{tmp_path}/source": SiteKind.ADDED,
    }


def test_packages_of_the_base_are_the_systems(tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", "--system-site-packages", python=sys.executable)

    kinds = _kinds(check_context(tmp_path, environ=ENVIRON, pythons=[python]))

    assert kinds[str(site_of(python))] is SiteKind.OWN
    assert SiteKind.ADDED not in kinds.values()


def test_the_users_directory_is_told_apart(tmp_path: Path) -> None:
    base = Path(sys.base_prefix) / "bin" / f"python{VERSION}"
    site = tmp_path / ".local" / "lib" / f"python{VERSION}" / "site-packages"
    site.mkdir(parents=True)
    environ = {**ENVIRON, "HOME": str(tmp_path)}

    kinds = _kinds(check_context(tmp_path, environ=environ, pythons=[base]))

    assert kinds[str(site)] is SiteKind.USER


def test_entries_of_pythonpath_are_below_the_jobs_directory(tmp_path: Path) -> None:
    context = check_context(tmp_path, environ={"PYTHONPATH": ":lib:/opt/x/"})

    assert pythonpath_entries(context) == [tmp_path / "lib", Path("/opt/x")]
