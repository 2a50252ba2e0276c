"""What is built from a tarball or from a clone without tags can be installed, and holds what it needs."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]


def sources(directory: Path) -> Path:
    """The tracked files, without git: as a tarball has them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (
            name.startswith(("ci_doctor/", "pyproject", "README", "LICENSE"))
            and (ROOT / name).is_file()
        ):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
    return directory


def build(directory: Path) -> Path:
    """The wheel of a source tree, built with the build tools that stand in our environment."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        "dist",
        ".",
    ]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=120)
    return next((directory / "dist").glob("*.whl"))


def test_tarball_without_git_builds_with_the_fallback_version(tmp_path: Path) -> None:
    wheel = build(sources(tmp_path))

    assert wheel.name.startswith("ci_doctor_toolkit-0.1.0.dev0-")


def test_clone_without_version_tags_builds_and_a_nightly_tag_does_no_harm(tmp_path: Path) -> None:
    directory = sources(tmp_path)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"], ["tag", "nightly-cu13"]):
        subprocess.run(["git", *identity, *words], cwd=directory, check=True, capture_output=True)

    assert build(directory).name.startswith("ci_doctor_toolkit-0.1")


def test_wheel_holds_the_schema_the_shim_and_the_type_marker(tmp_path: Path) -> None:
    names = zipfile.ZipFile(build(sources(tmp_path))).namelist()

    for needed in (
        "ci_doctor/py.typed",
        "ci_doctor/render/report.schema.json",
        "ci_doctor/preload/shim/_ci_doctor_preload.py",
        "ci_doctor/preload/shim/_ci_doctor_preload_rt.py",
        "ci_doctor/_version.py",
    ):
        assert needed in names, needed
