"""What is built from a tarball, or from a clone with and without tags, can be installed, and holds what it needs."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

from release.build import Built, build
from release.check import wheel_problems
from tests.support.git_repository import commit, git
from tests.support.tracked_files import tracked_files

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
ROOT = Path(__file__).parents[2]
# Enough for a build: the whole package takes seconds.
SMALL = (
    *("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", ".gitignore", ".ci/run"),
    *("ci_doctor/__init__.py", "ci_doctor/__main__.py", "ci_doctor/py.typed"),
)


def copied(names: list[str] | tuple[str, ...], directory: Path) -> Path:
    """The files without git: as a tarball has them. An sdist, in which this may run, lacks two."""
    for name in [name for name in names if (ROOT / name).exists()]:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, directory / name)
    return directory


def clone(names: list[str] | tuple[str, ...], directory: Path) -> Path:
    git(copied(names, directory), "init", "--quiet", "--initial-branch=main")
    commit(directory, {})
    return directory


def wheel_of_pip(directory: Path) -> Path:
    """The wheel of a source tree, built with the build tools that stand in our environment."""
    words = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", ".")
    command = [sys.executable, "-m", "pip", *words]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=120)
    return next((directory / "dist").glob("*.whl"))


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(archive.read(name))


def page_of(wheel: Path) -> str:
    return str(metadata(wheel).get_payload())


def names_in(sdist: Path) -> set[str]:
    """Its files, without the metadata of setuptools."""
    with tarfile.open(sdist) as archive:
        files = [member.name.partition("/")[2] for member in archive if member.isfile()]
    return {name for name in files if ".egg-info/" not in name}


def bytes_of(built: Built) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in built]


def test_a_clone_without_release_tags_gives_a_wheel_with_all_that_the_package_needs(
    tmp_path: Path,
) -> None:
    package = {name for name in tracked_files() if name.startswith("ci_doctor/")}
    # An sdist has it, made by its build.
    package.discard("ci_doctor/_version.py")
    repository = clone([*SMALL, *package], tmp_path / "clone")
    git(repository, "tag", "nightly-cu13")

    wheel = wheel_of_pip(repository)

    assert wheel.name.startswith("ci_doctor_toolkit-0.1")
    assert list(wheel_problems(wheel, set(tracked_files()))) == []
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "ci_doctor/py.typed",
        "ci_doctor/render/report.schema.json",
        "ci_doctor/preload/shim/_ci_doctor_preload.py",
        "ci_doctor/preload/shim/_ci_doctor_preload_rt.py",
        "ci_doctor/_version.py",
    ):
        assert needed in names, needed


def test_tarball_without_git_builds_with_the_fallback_version(tmp_path: Path) -> None:
    wheel = wheel_of_pip(copied(SMALL, tmp_path))

    assert wheel.name.startswith("ci_doctor_toolkit-0.1.0.dev0-")


def test_builds_elsewhere_with_another_umask_and_time_zone_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = clone(SMALL, tmp_path / "clone")
    first = build(repository, tmp_path / "first")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = os.umask(0o077)
    try:
        git(tmp_path, "clone", "--quiet", str(repository), "another place")
        # What nobody committed gets into no release.
        (tmp_path / "another place" / "ci_doctor" / "mine.py").write_text("")
        second = build(tmp_path / "another place", tmp_path / "second")
    finally:
        os.umask(before)

    assert bytes_of(first) == bytes_of(second)
    assert "/raw/main/docs/images/vllm.svg)" in page_of(first.wheel)


def test_a_release_has_an_sdist_for_builds_and_tests_and_a_page_with_the_files_of_its_tag(
    tmp_path: Path,
) -> None:
    repository = clone(SMALL, tmp_path / "clone")
    git(repository, "tag", "v1.2.3")

    sdist, wheel = build(repository, tmp_path / "dist")

    assert "/raw/v1.2.3/docs/images/vllm.svg)" in page_of(wheel)
    made = {"ci_doctor/_version.py", "PKG-INFO", "setup.cfg"}
    assert names_in(sdist) == {*SMALL, *made} - {".gitignore", ".ci/run"}
    described = metadata(wheel)
    assert described["Version"] == "1.2.3"
    assert described["Description-Content-Type"] == "text/markdown"
    extras = described.get_all("Provides-Extra")
    assert extras is not None
    assert {"all", "cache"} <= set(extras)
