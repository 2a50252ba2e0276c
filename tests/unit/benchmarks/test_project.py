"""Packages read from directories."""

from pathlib import Path

import pytest

from benchmarks.density.project import pages, project_of, read_package


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project with a package, its tests and its pages."""
    (tmp_path / "pyproject.toml").touch()
    write(tmp_path / "some/module.py", "x = 1\ny = 2\n")
    write(tmp_path / "some/__init__.py", "")
    write(tmp_path / "tests/test_module.py", "assert True\n")
    write(tmp_path / "README.md", "One which counts.\n")
    write(tmp_path / "docs/deep/page.md", "Three words here.\n")
    write(tmp_path / "CHANGELOG.md", "Which is history.\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_checkout_is_measured_with_its_tests_and_pages(checkout: Path) -> None:
    package = read_package(checkout / "some")

    assert package.name == "some"
    assert (len(package.sources), package.whole.code_lines, package.test_lines) == (1, 2, 1)
    assert package.prose is not None
    assert (package.prose.words, package.prose.pronouns) == (6, 1)


def test_an_installed_package_has_neither(tmp_path: Path) -> None:
    write(tmp_path / "site-packages/some/module.py", "x = 1\n")

    package = read_package(tmp_path / "site-packages/some")

    assert (package.test_lines, package.prose) == (None, None)


def test_a_project_without_tests_and_pages_has_neither(tmp_path: Path) -> None:
    (tmp_path / "setup.py").touch()
    write(tmp_path / "some/module.py", "x = 1\n")

    package = read_package(tmp_path / "some")

    assert (package.test_lines, package.prose) == (None, None)


def test_the_project_of_a_src_layout_is_found(checkout: Path) -> None:
    write(checkout / "src/other/module.py", "x = 1\n")

    assert project_of(checkout / "src/other") == checkout.resolve()


def test_pages_come_sorted_and_without_the_changelog(checkout: Path) -> None:
    assert [str(page.relative_to(checkout)) for page in pages(checkout)] == [
        "README.md",
        "docs/deep/page.md",
    ]


def test_a_path_that_holds_no_code_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="name a package's directory"):
        read_package(tmp_path / "missing")
    with pytest.raises(ValueError, match="no Python code"):
        read_package(tmp_path)
