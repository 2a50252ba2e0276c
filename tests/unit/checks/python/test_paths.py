# SPDX-License-Identifier: Apache-2.0
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


def test_a_plain_environment_is_ok(python: Path, examine: Examine) -> None:
    result = examine(variables, python)

    assert result.status is CheckStatus.OK
    assert result.summary == "no variable of Python is set"


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
    import sys

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


def test_installers_may_be_led_to_the_environment_of_the_job(
    python: Path, examine: Examine
) -> None:
    environ = {"UV_PYTHON": str(python), "UV_PROJECT_ENVIRONMENT": str(python.parent.parent)}

    assert examine(variables, python, **environ).problems == ()


def test_asserts_that_are_removed_are_a_warning(python: Path, examine: Examine) -> None:
    result = examine(variables, python, PYTHONOPTIMIZE="1")

    assert [each.finding.rule for each in result.problems] == [ASSERTS_REMOVED.id]


def test_another_standard_library_is_a_warning(python: Path, examine: Examine) -> None:
    import sys

    result = examine(variables, python, PYTHONHOME=sys.base_prefix)

    assert PYTHONPATH_LEAK.id in [each.finding.rule for each in result.problems]


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


def _examine(checkout: Path, python: Path, **environ: str) -> CheckResult:
    return shadowing.run(check_context(checkout, environ={**ENVIRON, **environ}, pythons=[python]))


def test_modules_of_other_names_are_ok(checkout: Path, python: Path) -> None:
    (checkout / "conftest.py").write_text("")
    (checkout / "mine").mkdir()
    (checkout / "mine" / "__init__.py").write_text("")

    result = _examine(checkout, python)

    assert result.status is CheckStatus.OK
    assert result.summary == "2 modules in 1 directory before the installed packages"


def test_a_file_that_hides_the_standard_library_is_the_fault_of_the_checkout(
    checkout: Path, python: Path
) -> None:
    (checkout / "random.py").write_text("")

    (found,) = _examine(checkout, python).problems

    assert found.finding.rule == MODULE_SHADOWED.id
    assert found.finding.severity == "error"
    assert found.fault is Fault.REPOSITORY
    assert f"{checkout}/random.py hides the module `random`" in found.finding.summary


def test_a_package_hides_a_module_and_a_mere_folder_does_not(checkout: Path, python: Path) -> None:
    (checkout / "queue").mkdir()
    (checkout / "queue" / "__init__.py").write_text("")
    (checkout / "operator").mkdir()
    (checkout / "operator" / "main.go").write_text("")

    (found,) = _examine(checkout, python).problems

    assert "queue" in found.finding.summary


def test_modules_that_are_loaded_or_frozen_cannot_be_hidden(checkout: Path, python: Path) -> None:
    for name in ("os", "sys", "posixpath", "io", "test"):
        (checkout / f"{name}.py").write_text("")

    assert _examine(checkout, python).problems == ()


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
    files = {"fast/__init__.py": b"", "fast/_C.abi3.so": b"\x7fELF"}
    install(site_of(python), "fast", "1", files=files)
    (checkout / "fast").mkdir()
    (checkout / "fast" / "__init__.py").write_text("")
    services = {"fast": ServiceSpec(command=command)}
    context = check_context(checkout, environ=ENVIRON, services=services, pythons=[python])

    (problem,) = shadowing.run(context).problems

    assert problem.finding.severity == severity
    assert "lacks its compiled _C.abi3.so" in problem.finding.summary


def test_what_debuggers_import_is_a_warning(checkout: Path, python: Path) -> None:
    (checkout / "code").mkdir()
    (checkout / "code" / "__init__.py").write_text("")

    assert _examine(checkout, python).status is CheckStatus.WARNING


def test_a_source_tree_that_was_built_in_place_is_a_warning(checkout: Path, python: Path) -> None:
    files = {"fast/__init__.py": b"", "fast/_C.abi3.so": b"\x7fELF"}
    install(site_of(python), "fast", "1", files=files)
    (checkout / "fast").mkdir()
    (checkout / "fast" / "__init__.py").write_text("NEWER = True")
    (checkout / "fast" / "_C.abi3.so").write_bytes(b"\x7fELF")

    assert _examine(checkout, python).status is CheckStatus.WARNING


def test_a_pure_package_that_is_hidden_is_a_warning(checkout: Path, python: Path) -> None:
    (checkout / "engine.py").write_text("")

    assert _examine(checkout, python).status is CheckStatus.WARNING


def test_a_pure_package_that_was_installed_from_this_very_checkout_is_ok(
    checkout: Path, python: Path
) -> None:
    install(site_of(python), "pure", "1", files={"pure/__init__.py": b"1", "pure/more.py": b"22"})
    (checkout / "pure").mkdir()
    (checkout / "pure" / "__init__.py").write_text("1")
    (checkout / "pure" / "more.py").write_text("22")

    assert _examine(checkout, python).problems == ()


def test_folders_that_every_repository_has_are_no_copies(checkout: Path, python: Path) -> None:
    install(site_of(python), "careless", "1", files={"tests/__init__.py": b""})
    (checkout / "tests").mkdir()
    (checkout / "tests" / "__init__.py").write_text("")

    assert _examine(checkout, python).problems == ()


def test_a_link_to_the_installed_package_hides_nothing(checkout: Path, python: Path) -> None:
    (checkout / "engine").symlink_to(site_of(python) / "engine")

    assert _examine(checkout, python).problems == ()


def test_the_directory_of_the_job_is_not_searched_under_safe_path(
    checkout: Path, python: Path
) -> None:
    (checkout / "random.py").write_text("")

    assert _examine(checkout, python, PYTHONSAFEPATH="1").problems == ()


def test_what_pythonpath_hides_is_the_fault_of_the_environment(
    checkout: Path, python: Path, tmp_path: Path
) -> None:
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay" / "random.py").write_text("")

    (found,) = _examine(checkout, python, PYTHONPATH=str(tmp_path / "overlay")).problems

    assert found.fault is Fault.ENVIRONMENT
    assert str(found.finding.remedy).startswith("unset PYTHONPATH")


def test_the_directory_of_a_services_script_is_looked_at(checkout: Path, python: Path) -> None:
    (checkout / "serving").mkdir()
    (checkout / "serving" / "main.py").write_text("")
    (checkout / "serving" / "random.py").write_text("")
    services = {
        "one": ServiceSpec(command="python serving/main.py"),
        "two": ServiceSpec(command="python 'unclosed"),
    }

    result = shadowing.run(
        check_context(checkout, environ=ENVIRON, services=services, pythons=[python])
    )

    assert [each.finding.severity for each in result.problems] == ["error"]


def test_an_unreadable_directory_of_the_job_has_no_modules(python: Path, examine: Examine) -> None:
    assert examine(shadowing, python, PYTHONPATH="/gone").problems == ()


def test_the_directory_of_the_job_in_pythonpath_is_searched_by_every_python(
    checkout: Path, python: Path
) -> None:
    files = {"fast/__init__.py": b"", "fast/_C.abi3.so": b"\x7fELF"}
    install(site_of(python), "fast", "1", files=files)
    (checkout / "fast").mkdir()
    (checkout / "fast" / "__init__.py").write_text("")

    (found,) = _examine(checkout, python, PYTHONPATH=str(checkout)).problems

    assert found.finding.severity == "error"
    # PYTHONSAFEPATH leaves PYTHONPATH as it is.
    assert str(found.finding.remedy).startswith("export PYTHONSAFEPATH=1; unset PYTHONPATH")
