from pathlib import Path

from ci_doctor.checks.python.installed_environment import read_environments
from ci_doctor.checks.python.pip_command import pip_line, reinstallation
from tests.support.checks import check_context
from tests.support.packages import install, site_of


def test_an_environment_without_pip_is_installed_to_by_uv(python: Path, tmp_path: Path) -> None:
    (environment,) = read_environments(check_context(tmp_path, environ={}, pythons=[python]))

    assert pip_line(environment, "install", ["a<2"]) == f"uv pip install --python {python} 'a<2'"


def test_an_environment_with_pip_is_installed_to_by_it(python: Path, tmp_path: Path) -> None:
    install(site_of(python), "pip", "25.0")
    (environment,) = read_environments(check_context(tmp_path, environ={}, pythons=[python]))

    command = reinstallation(environment, "engine", "1.0")

    expected = f"{python} -m pip install --force-reinstall --no-deps engine==1.0"
    assert command.words == expected


def test_pip_does_not_take_the_next_pasted_line_for_an_answer(python: Path, tmp_path: Path) -> None:
    install(site_of(python), "pip", "25.0")
    (environment,) = read_environments(check_context(tmp_path, environ={}, pythons=[python]))

    assert pip_line(environment, "uninstall", ["a"]) == f"{python} -m pip uninstall -y a"
