# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus, Fault
from ci_doctor.checks.python.paths import (
    ASSERTS_REMOVED,
    INSTALLER_REDIRECTED,
    MODULE_SHADOWED,
    PYTHONPATH_LEAK,
    USER_SITE_LEAK,
    shadowing,
    variables,
)
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context
from tests.support.packages import VERSION, install, site_of
from tests.unit.checks.python.conftest import ENVIRON, Examine


def test_a_plain_environment_is_ok_and_may_be_named_to_installers(
    python: Path, examine: Examine
) -> None:
    own = {"UV_PYTHON": str(python), "UV_PROJECT_ENVIRONMENT": str(python.parent.parent)}

    result = examine(variables, python)

    assert result.status is CheckStatus.OK
    assert result.summary == "no variable of Python is set"
    assert examine(variables, python, **own).problems == ()


def test_removed_asserts_and_another_standard_library_are_warnings(
    python: Path, examine: Examine
) -> None:
    result = examine(variables, python, PYTHONOPTIMIZE="1", PYTHONHOME=sys.base_prefix)

    rules = {each.finding.rule for each in result.problems}
    assert rules == {ASSERTS_REMOVED.id, PYTHONPATH_LEAK.id}


def test_packages_of_another_version_in_pythonpath_are_a_warning(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    other = tmp_path / "lib" / "python3.8" / "site-packages"
    other.mkdir(parents=True)

    result = examine(variables, python, PYTHONPATH=f"{tmp_path}:{other}")

    assert result.status is CheckStatus.WARNING
    (found,) = result.problems
    assert found.finding.rule == PYTHONPATH_LEAK.id
    assert f"to packages of Python 3.8: {other}" in found.finding.summary
    assert found.finding.remedy == f"export PYTHONPATH={tmp_path}"


def test_packages_of_another_environment_in_pythonpath_are_a_warning(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    other = tmp_path / "other" / "lib" / f"python{VERSION}" / "site-packages"
    other.mkdir(parents=True)

    assert examine(variables, python, PYTHONPATH=str(other)).status is CheckStatus.WARNING


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("/gone/lib", "/gone/lib, which does not exist"),
        (":/", "an empty entry"),
        (".", "another directory wherever a program starts"),
    ],
)
def test_entries_that_may_surprise_are_notes(
    value: str, words: str, python: Path, examine: Examine
) -> None:
    result = examine(variables, python, PYTHONPATH=value)

    assert result.status is CheckStatus.OK
    assert words in result.problems[0].finding.summary


def test_packages_of_the_users_own_directory_are_a_note(tmp_path: Path, examine: Examine) -> None:
    base = Path(sys.base_prefix) / "bin" / f"python{VERSION}"
    site = tmp_path / ".local" / "lib" / f"python{VERSION}" / "site-packages"
    install(site, "leak", "3")

    result = examine(variables, base, HOME=str(tmp_path))

    assert [each.finding.rule for each in result.problems] == [USER_SITE_LEAK.id]
    assert "leak 3" in result.problems[0].finding.summary
    assert examine(variables, base, HOME=str(tmp_path), PYTHONNOUSERSITE="1").problems == ()


@pytest.mark.parametrize(
    ("name", "value", "is_said"),
    [
        ("PIP_TARGET", "/opt/elsewhere", True),
        ("PIP_USER", "1", True),
        ("PIP_USER", "0", False),
        ("UV_SYSTEM_PYTHON", "true", True),
        ("PIP_NO_CACHE_DIR", "1", False),
        ("UV_PYTHON", "3.12", False),
        ("UV_PYTHON", "/opt/elsewhere/bin/python", True),
        ("UV_PROJECT_ENVIRONMENT", ".another", True),
    ],
)
def test_variables_that_make_installers_install_elsewhere(
    name: str, value: str, is_said: bool, python: Path, examine: Examine
) -> None:
    result = examine(variables, python, **{name: value})

    names = [each.finding.rule for each in result.problems]
    assert names == [INSTALLER_REDIRECTED.id] * is_said


def test_entries_that_lead_nowhere_are_one_note(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    gone = ":".join(f"/gone/{number}" for number in range(200))

    (found,) = examine(variables, python, PYTHONPATH=f"{gone}:{tmp_path}").problems

    assert found.finding.severity == "note"
    assert "/gone/0, which does not exist, and 199 more" in found.finding.summary
    assert found.finding.remedy == f"export PYTHONPATH={tmp_path}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which the job runs."""
    checkout = tmp_path / "checkout"
    (checkout / ".git").mkdir(parents=True)
    return checkout


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\x7fELF" if name.endswith(".so") else b"")


def _examine(checkout: Path, python: Path, *commands: str, **environ: str) -> CheckResult:
    """`commands` are those of the job's services."""
    services = {
        f"service-{place}": ServiceSpec(command=each) for place, each in enumerate(commands)
    }
    variables = {**ENVIRON, **environ}
    context = check_context(
        checkout, environ=variables, services=services or None, pythons=[python]
    )
    return shadowing.run(context)


COMPILED = ("fast/__init__.py", "fast/_C.abi3.so")


def install_compiled(python: Path) -> None:
    install(site_of(python), "fast", "1", files={COMPILED[0]: b"", COMPILED[1]: b"\x7fELF"})


def test_what_hides_nothing_is_ok(checkout: Path, python: Path) -> None:
    # Modules of other names, those that are loaded or frozen, a mere folder, and a link.
    put(checkout, "conftest.py", "mine/__init__.py", "operator/main.go", "tests/__init__.py")
    put(checkout, *(f"{name}.py" for name in ("os", "sys", "posixpath", "io", "test")))
    install(site_of(python), "careless", "1", files={"tests/__init__.py": b""})
    (checkout / "engine").symlink_to(site_of(python) / "engine")

    result = _examine(checkout, python)
    (checkout / "random.py").write_text("")
    safe = _examine(checkout, python, PYTHONSAFEPATH="1")

    assert (result.status, safe.problems) == (CheckStatus.OK, ())
    assert result.summary.endswith("modules in 1 directory before the installed packages")


def test_a_file_that_hides_the_standard_library_is_the_fault_of_the_checkout(
    checkout: Path, python: Path
) -> None:
    put(checkout, "random.py", "queue/__init__.py")

    found = {each.finding.summary: each for each in _examine(checkout, python).problems}

    assert [name in " ".join(found) for name in ("random.py", "queue")] == [True, True]
    for each in found.values():
        assert (each.finding.rule, each.finding.severity) == (MODULE_SHADOWED.id, "error")
        assert each.fault is Fault.REPOSITORY
    assert any(f"{checkout}/random.py hides the module `random`" in words for words in found)


@pytest.mark.parametrize(
    "files",
    [("code/__init__.py",), COMPILED, ("engine.py",)],
    ids=["what debuggers import", "a tree that was built in place", "a pure package"],
)
def test_what_may_be_hidden_by_intention_is_a_warning(
    files: tuple[str, ...], checkout: Path, python: Path
) -> None:
    install_compiled(python)
    put(checkout, *files)
    if files == COMPILED:
        (checkout / files[0]).write_text("NEWER = True")

    assert _examine(checkout, python).status is CheckStatus.WARNING


@pytest.mark.parametrize(
    ("command", "severity"),
    [
        pytest.param("fast serve --port {port}", "warning", id="a console script"),
        pytest.param("python -m fast.server", "error", id="python -m looks there first"),
    ],
)
def test_a_source_tree_without_the_compiled_parts_of_the_installed_package(
    command: str, severity: str, checkout: Path, python: Path
) -> None:
    install_compiled(python)
    put(checkout, "fast/__init__.py")

    (problem,) = _examine(checkout, python, command).problems

    assert problem.finding.severity == severity
    assert "lacks its compiled _C.abi3.so" in problem.finding.summary


def test_a_pure_package_that_was_installed_from_this_very_checkout_is_ok(
    checkout: Path, python: Path
) -> None:
    install(site_of(python), "pure", "1", files={"pure/__init__.py": b"1", "pure/more.py": b"22"})
    (checkout / "pure").mkdir()
    (checkout / "pure" / "__init__.py").write_text("1")
    (checkout / "pure" / "more.py").write_text("22")

    assert _examine(checkout, python).problems == ()


def test_what_pythonpath_hides_is_the_fault_of_the_environment(
    checkout: Path, python: Path, tmp_path: Path
) -> None:
    put(tmp_path, "overlay/random.py")

    (found,) = _examine(checkout, python, PYTHONPATH=f"{tmp_path}/overlay:/gone").problems

    assert found.fault is Fault.ENVIRONMENT
    assert str(found.finding.remedy).startswith("unset PYTHONPATH")


@pytest.mark.parametrize("folder", ["checkout/overlay", "exported/overlay"])
def test_what_a_folder_of_the_job_hides_is_the_fault_of_the_repository(
    folder: str, checkout: Path, python: Path, tmp_path: Path
) -> None:
    # A tree that was exported has no .git; that the file is the job's is known all the same.
    put(tmp_path, f"{folder}/random.py", "link/.keep")
    (tmp_path / "link" / "job").symlink_to(tmp_path / folder)
    cwd = (tmp_path / folder).parent

    for entry in (tmp_path / folder, tmp_path / "link" / "job"):
        (found,) = _examine(cwd, python, PYTHONPATH=str(entry)).problems
        assert found.fault is Fault.REPOSITORY


def test_the_directory_of_a_services_script_is_looked_at(checkout: Path, python: Path) -> None:
    put(checkout, "serving/main.py", "serving/random.py")

    result = _examine(checkout, python, "python serving/main.py", "python 'unclosed")

    assert [each.finding.severity for each in result.problems] == ["error"]


def test_the_directory_of_the_job_in_pythonpath_is_searched_by_every_python(
    checkout: Path, python: Path
) -> None:
    install_compiled(python)
    put(checkout, "fast/__init__.py")

    (found,) = _examine(checkout, python, PYTHONPATH=str(checkout)).problems

    assert found.finding.severity == "error"
    # PYTHONSAFEPATH leaves PYTHONPATH as it is.
    assert str(found.finding.remedy).startswith("export PYTHONSAFEPATH=1; unset PYTHONPATH")
