"""Packages read from directories."""

from pathlib import Path

import pytest

from benchmarks.density.project import project_of, read_package


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project with a package and its tests."""
    (tmp_path / "pyproject.toml").touch()
    write(tmp_path / "some/module.py", "x = 1\ny = 2\n")
    write(tmp_path / "some/__init__.py", "")
    write(tmp_path / "tests/test_module.py", "assert True\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_checkout_is_measured_with_its_tests(checkout: Path) -> None:
    package = read_package(checkout / "some")

    assert package.name == "some"
    assert (len(package.sources), package.whole.code_lines, package.test_lines) == (1, 2, 1)


def test_an_installed_package_has_no_tests(tmp_path: Path) -> None:
    write(tmp_path / "site-packages/some/module.py", "x = 1\n")

    package = read_package(tmp_path / "site-packages/some")

    assert package.test_lines is None


def test_a_project_without_tests_has_none(tmp_path: Path) -> None:
    (tmp_path / "setup.py").touch()
    write(tmp_path / "some/module.py", "x = 1\n")

    package = read_package(tmp_path / "some")

    assert package.test_lines is None


def test_the_project_of_a_src_layout_is_found(checkout: Path) -> None:
    write(checkout / "src/other/module.py", "x = 1\n")

    assert project_of(checkout / "src/other") == checkout.resolve()


def test_a_path_that_holds_no_code_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="name a package's directory"):
        read_package(tmp_path / "missing")
    with pytest.raises(ValueError, match="no Python code"):
        read_package(tmp_path)
