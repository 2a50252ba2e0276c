"""install/wheelhouse.py by a real pip, with tiny wheels in place of a package index."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from install.wheelhouse import Target, unmet
from tests.support.wheels import build_wheel

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
ROOT = Path(__file__).parents[2]
NEEDS = (
    'Requires-Dist: always>=2; extra == "part"\n'
    'Requires-Dist: newer; python_version >= "3.13"\n'
    'Requires-Dist: windows; sys_platform == "win32"\n'
    "Provides-Extra: part\n"
)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A directory with our wheel and what it needs; `newer` needs `deeper` in turn."""
    folder = tmp_path / "index"
    build_wheel(folder, "ci_doctor_toolkit", "1.0", {}, NEEDS)
    for version in ("1.0", "2.0"):
        build_wheel(folder, "always", version, {})
    build_wheel(folder, "newer", "1.0", {}, "Requires-Dist: deeper\n")
    build_wheel(folder, "deeper", "1.0", {})
    return folder


def fill(index: Path, out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "install" / "wheelhouse.py"), "--out", str(out)]
    wheel = str(index / "ci_doctor_toolkit-1.0-py3-none-any.whl")
    environment = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
        "PIP_CONFIG_FILE": os.devnull,
    }
    return subprocess.run(
        [*command, "--source", wheel, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def names(folder: Path) -> set[str]:
    return {path.name.partition("-py3")[0] for path in folder.glob("*.whl")}


def test_wheels_for_another_python_are_there_though_pip_reads_markers_by_its_own(
    index: Path, tmp_path: Path
) -> None:
    out = tmp_path / "wheelhouse"
    own = {"always-2.0", "ci_doctor_toolkit-1.0"}

    ran = fill(index, out, "--extra", "part", "--python", "3.11", "--python", "3.14")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert names(out) == {*own, "newer-1.0", "deeper-1.0"}
    assert (out / "requirements.txt").read_text() == "ci-doctor-toolkit[part]==1.0\n"
    subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=out, check=True, capture_output=True)


def test_a_wheel_that_cannot_be_had_is_named_and_the_status_is_1(
    index: Path, tmp_path: Path
) -> None:
    (index / "deeper-1.0-py3-none-any.whl").unlink()

    ran = fill(index, tmp_path / "out", "--python", "3.13")

    assert ran.returncode == 1
    assert "deeper" in ran.stderr
    assert not (tmp_path / "out" / "requirements.txt").exists()


def test_a_folder_with_files_is_left_alone(index: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")

    ran = fill(index, tmp_path)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"{tmp_path} is not empty" in ran.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--glibc", "2"),
        ("--glibc", "2.x"),
        ("--glibc", "3.1"),
        ("--python", "3"),
        ("--machine", ""),
    ],
)
def test_a_value_that_names_no_machine_is_a_usage_error_and_makes_no_folder(
    index: Path, tmp_path: Path, words: tuple[str, str]
) -> None:
    ran = fill(index, tmp_path / "out", *words)

    assert (ran.returncode, "Traceback" in ran.stderr) == (2, False), ran.stderr
    assert f"argument {words[0]}" in ran.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_is_no_folder_and_stays(index: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")

    for out in (tmp_path / "mine", tmp_path / "mine" / "below"):
        ran = fill(index, out)
        assert (ran.returncode, "Traceback" in ran.stderr) == (2, False), ran.stderr
        assert f"{tmp_path / 'mine'} is no folder" in ran.stderr
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    ("tags", "fits"),
    [
        ("py3-none-any", True),
        ("py2.py3-none-any", True),
        ("cp312-cp312-manylinux_2_28_x86_64", True),
        ("cp38-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64", True),
        ("cp312-cp312-manylinux_2_34_x86_64", False),
        ("cp312-cp312-manylinux_2_17_aarch64", False),
        ("cp313-abi3-manylinux_2_17_x86_64", False),
        ("cp313-cp313-manylinux_2_17_x86_64", False),
        ("cp312-cp312-musllinux_1_2_x86_64", False),
    ],
)
def test_a_wheel_counts_if_it_runs_on_the_machine(tags: str, *, fits: bool, tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, "thing", "1.0", {})
    wheel.rename(tmp_path / f"thing-1.0-{tags}.whl")

    missing = list(unmet(Requirement("thing"), Target("3.12", "x86_64", 28), tmp_path))

    assert missing == ([] if fits else ["thing"])
