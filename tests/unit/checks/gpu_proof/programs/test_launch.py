# SPDX-License-Identifier: Apache-2.0
"""The launcher: one line of JSON, whatever the interpreter's torch does. What it starts runs on old Pythons."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.checks.gpu_proof import PROGRAMS
from tests.support.gpu_proof import STAND_IN


def launch(name: str, request: Any, path: Path = STAND_IN, **behaviour: Any) -> dict[str, Any]:
    """The answer of a measurement, in an interpreter whose torch lies in `path`."""
    ran = subprocess.run(
        [sys.executable, "-S", str(PROGRAMS / "launch.py"), name, json.dumps(request)],
        env={
            **os.environ,
            "PYTHONPATH": str(path),
            "STAND_IN_TORCH": json.dumps(behaviour),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_programs_are_written_for_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_values_come_with_the_versions() -> None:
    answer = launch("devices", {}, devices=2)

    assert (answer["torch"], answer["cuda"]) == ("9.9.9+standin", "13.0")
    assert [device["index"] for device in answer["devices"]] == [0, 1]


def test_no_torch(tmp_path: Path) -> None:
    answer = launch("devices", {}, tmp_path)

    assert answer == {"failed": "ModuleNotFoundError: No module named 'torch'", "stage": "torch"}


def test_a_torch_that_ends_the_program_while_it_is_imported(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("print('half a line', end='')\nraise SystemExit('broken')\n")

    answer = launch("devices", {}, tmp_path)

    assert answer == {"failed": "SystemExit: broken", "stage": "torch"}


def test_a_torch_without_cuda() -> None:
    assert launch("devices", {}, cuda=None)["stage"] == "build"


def test_a_driver_that_is_too_old() -> None:
    answer = launch("devices", {}, no_driver="The NVIDIA driver on your system is too old")

    assert answer["stage"] == "driver"
    assert answer["failed"] == "RuntimeError: The NVIDIA driver on your system is too old"


def test_a_gpu_without_room() -> None:
    assert launch("products", {"device": 0}, no_room=True)["stage"] == "memory"


def test_a_gpu_that_cannot_compute_is_named_beside_one_that_can() -> None:
    devices = launch("devices", {}, devices=2, broken=1)["devices"]

    assert devices[0]["failed"] is None
    assert "no kernel image is available" in devices[1]["failed"]


def test_products_of_two_starts_are_equal() -> None:
    first = launch("products", {"device": 0})
    second = launch("products", {"device": 0})

    assert first == second
    assert len(first["products"]["cases"]) == 6


def test_products_that_do_not_exist_on_a_gpu_are_skipped_with_the_reason() -> None:
    values = launch("products", {"device": 0}, unsupported_size=2)["products"]

    assert list(values["cases"]) == ["fp32 8x16384x4096"]
    assert "NOT_SUPPORTED" in values["skipped"]["bf16 8x16384x4096"]


def test_a_gpu_that_computes_no_product_at_all_has_failed() -> None:
    answer = launch("products", {"device": 0}, no_products=True)

    assert answer["failed"].startswith("RuntimeError: no product could be computed: CUDA error")


def test_modules_beside_the_launcher_shadow_nothing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import products\n")

    assert launch("devices", {}, tmp_path)["failed"].startswith("ModuleNotFoundError")


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """If ci-doctor is killed, no program stays on the GPU. One that stayed would say so."""
    waiting = "import time\nprint('ready', flush=True)\ntime.sleep(10)\nprint('still here')\n"
    (tmp_path / "torch.py").write_text(waiting)
    words = [sys.executable, "-S", str(PROGRAMS / "launch.py"), "devices", "{}"]
    starter = [sys.executable, "-c", f"import subprocess; subprocess.run({words!r})"]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}

    with subprocess.Popen(starter, env=environ, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
        rest = parent.stdout.read()

    assert rest == ""
