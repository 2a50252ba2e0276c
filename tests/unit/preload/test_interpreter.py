# SPDX-License-Identifier: Apache-2.0
"""Which interpreters a request means, which directory of one is right, and which are refused."""

from pathlib import Path

import pytest

from ci_doctor.errors import CiDoctorError, InfraError, PreparationError, UsageError
from ci_doctor.model.outcome import ErrorKind, Verdict
from ci_doctor.preload.interpreter import (
    Interpreters,
    Refused,
    choose_site_dir,
    find_interpreters,
    find_sites,
    forget_sites,
    remember_site,
    worst,
)
from tests.support.packages import write_script

LIBS = ["/v/lib", "/v/lib64"]


@pytest.mark.parametrize(
    ("preferred", "site_dirs", "sys_path", "chosen"),
    [
        (LIBS, ["/v/lib64", "/v/lib"], ["/v/lib64", "/v/lib"], "/v/lib"),
        (LIBS, LIBS, ["/v/lib64"], "/v/lib64"),
        (["/target", "/target"], ["/v/lib"], ["/target", "/v/lib"], "/v/lib"),
        (["/v/lib"], [], ["/v/lib"], None),
    ],
    ids=["purelib is first", "it must be on the path", "no site directory", "none fits"],
)
def test_the_site_directory_is_one_on_the_path(
    preferred: list[str], site_dirs: list[str], sys_path: list[str], chosen: str | None
) -> None:
    assert choose_site_dir(preferred, site_dirs, sys_path) == chosen


def test_link_to_a_site_directory_counts_as_it(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib64").symlink_to(tmp_path / "lib")
    lib, lib64 = str(tmp_path / "lib"), str(tmp_path / "lib64")
    assert choose_site_dir([lib], [lib64], [lib64]) == lib


def test_a_missing_one_does_not_hide_the_others(tmp_path: Path) -> None:
    python = write_script(tmp_path / "v" / "bin" / "python")
    named = Interpreters(pythons=("no-such-python",), venvs=(str(tmp_path / "v"),))
    missing, present = find_interpreters(named, {"PATH": str(tmp_path)})
    assert isinstance(missing, Refused)
    assert missing.python == Path("no-such-python")
    assert present == python


def test_without_names_the_jobs_own_environment_counts(tmp_path: Path) -> None:
    python = write_script(tmp_path / "project" / ".venv" / "bin" / "python")
    named = Interpreters(projects=(str(tmp_path / "project"),))
    assert find_interpreters(named, {"PATH": str(tmp_path)}) == [python]


def test_a_link_that_leads_to_itself_is_no_place_of_a_shim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "python3").symlink_to("python3")
    site = tmp_path / "v" / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    named = Interpreters(venvs=(str(tmp_path / "v"),))
    assert find_sites(named, {"PATH": str(tmp_path)}) == [site.resolve()]


def test_a_site_is_remembered_once(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    for name in ("a", "b", "a"):
        remember_site(tmp_path / name, environ)
    (record,) = tmp_path.rglob("preload-sites")
    assert record.read_bytes().count(b"\0") == 2
    forget_sites(environ)
    assert not list(tmp_path.rglob("*ci-doctor*"))


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"XDG_STATE_HOME": "state"}])
def test_without_a_home_nothing_is_remembered_in_the_working_directory(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    remember_site(tmp_path / "a", environ)
    forget_sites(environ)
    assert not list(tmp_path.iterdir())


def test_no_interpreter_at_all_is_an_error(tmp_path: Path) -> None:
    named = Interpreters(projects=(str(tmp_path),))
    with pytest.raises(UsageError, match="no interpreter found"):
        find_interpreters(named, {"PATH": str(tmp_path)})


USAGE = UsageError("usage", hint="name another")
FINDING = PreparationError("finding")
INFRA = InfraError("infra")


def refused(*errors: CiDoctorError) -> list[Refused]:
    return [Refused(python=Path(error.message), error=error) for error in errors]


@pytest.mark.parametrize(
    ("errors", "verdict", "kind"),
    [
        ((INFRA, FINDING, USAGE), None, ErrorKind.USAGE),
        ((INFRA, FINDING), Verdict.FAILED, ErrorKind.PREPARATION),
        ((INFRA,), Verdict.INFRA, ErrorKind.INFRA),
        # Of one kind the first.
        ((USAGE, UsageError("second")), None, ErrorKind.USAGE),
    ],
)
def test_what_the_user_can_correct_comes_first(
    errors: tuple[CiDoctorError, ...], verdict: Verdict | None, kind: ErrorKind
) -> None:
    reached, failure = worst(refused(*errors))
    assert failure is not None
    assert (reached, failure.kind) == (verdict, kind)
    assert failure.message != "second"


def test_a_refusal_keeps_its_hint_and_its_own_exit_code() -> None:
    (result,) = refused(USAGE)
    assert (result.refusal.hint, result.refusal.exit_code) == ("name another", 2)
    assert worst([]) == (None, None)
