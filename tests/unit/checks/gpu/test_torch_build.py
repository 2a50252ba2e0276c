# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest
from ci_doctor.checks.gpu.torch_build import parse_torch, torch_builds

from ci_doctor.checks.check import UndeterminedError
from tests.support.checks import check_context
from tests.support.gpus import torch_venv, venv

PYTHON = Path("/opt/venv/bin/python")


@pytest.mark.parametrize(
    ("version", "text", "cuda", "is_for_cpu"),
    [
        pytest.param("2.9.0+cu128", "cuda: Optional[str] = '12.8'\n", "12.8", False, id="typed"),
        pytest.param("2.1.0", "cuda = '11.8'\nhip = None\n", "11.8", False, id="plain"),
        pytest.param("2.9.0+cpu", "cuda: Optional[str] = None\n", None, True, id="cpu"),
        pytest.param("2.9.0", "cuda = None\nhip: Optional[str] = '6.4'\n", None, False, id="hip"),
        pytest.param("2.9.0+cu128", None, "12.8", False, id="by-the-version"),
        pytest.param("2.9.0+cu130", None, "13.0", False, id="by-the-version-13"),
    ],
)
def test_a_torch_tells_its_cuda_by_its_files(
    version: str, text: str | None, cuda: str | None, *, is_for_cpu: bool
) -> None:
    build = parse_torch(PYTHON, version, text)

    assert (build.cuda, build.is_for_cpu) == (cuda, is_for_cpu)


def test_each_interpreter_of_the_job_is_looked_at_and_none_is_run(tmp_path: Path) -> None:
    pythons = [
        torch_venv(tmp_path / "a", "2.9.0+cu128", "12.8"),
        torch_venv(tmp_path / "b", "2.10.0+cu130", "13.0"),
        venv(tmp_path / "c", {"numpy": "2.0.0"}),
    ]

    builds = torch_builds(check_context(tmp_path, environ={}, pythons=pythons))

    assert [(build.python, build.cuda) for build in builds] == [
        (pythons[0], "12.8"),
        (pythons[1], "13.0"),
    ]


def test_a_script_by_the_name_of_python_is_started_to_find_its_packages(tmp_path: Path) -> None:
    """As pyenv's are."""
    torch_venv(tmp_path / "venv", "2.9.0+cu128", "12.8")
    site = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    python = tmp_path / "shims" / "python3"
    python.parent.mkdir()
    script = f'#!/bin/sh\nexport PYTHONPATH={site}\nreal={sys.executable}\nexec "$real" -S "$@"\n'
    python.write_text(script)
    python.chmod(0o755)

    (build,) = torch_builds(check_context(tmp_path, pythons=[python]))

    assert build.cuda == "12.8"


def test_a_python_that_nobody_understands_is_unknown(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)

    with pytest.raises(UndeterminedError):
        torch_builds(check_context(tmp_path, pythons=[python]))
