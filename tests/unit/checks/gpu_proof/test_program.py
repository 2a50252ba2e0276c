# SPDX-License-Identifier: Apache-2.0
"""How a measurement in another interpreter can end."""

import sys
from pathlib import Path

import pytest
from ci_doctor.checks.gpu_proof.program import TorchAnswer, ask_torch, values_of
from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError
from tests.support.gpu_proof import proof_context

PYTHON = Path(sys.executable)


class _Value(Struct):
    size: int


def test_a_program_that_hangs_is_ended_and_says_after_how_long(tmp_path: Path) -> None:
    context = proof_context(tmp_path, hangs=True)

    answer = ask_torch(context, PYTHON, "products", {"device": 0}, limit_s=0.5)

    assert (answer.stage, answer.failed) == ("process", "no answer within 0.5 s")
    assert context.programs.pids() == ()


def test_a_program_that_dies_says_how(tmp_path: Path) -> None:
    context = proof_context(tmp_path, dies_once=str(tmp_path / "died"))

    answer = ask_torch(context, PYTHON, "products", {"device": 0}, limit_s=30)

    assert answer.stage == "process"
    assert answer.failed is not None
    assert answer.failed.startswith("it ended by exit code 3: CUDA error: an illegal memory")


def test_no_bytecode_is_left_in_the_interpreter(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "torch.py").write_text("__version__ = '1'\n")
    context = proof_context(tmp_path / "bin")
    environ = {**context.environ, "PYTHONPATH": str(site)}

    ask_torch(context, PYTHON, "devices", {}, limit_s=30, environ=environ)

    assert [path.name for path in site.iterdir()] == ["torch.py"]


def test_values_of_another_shape_are_undetermined() -> None:
    with pytest.raises(UndeterminedError, match="GPU 0: the answer cannot be read"):
        values_of(TorchAnswer(values={"size": "large"}), _Value, "GPU 0")


def test_no_values_are_undetermined_with_the_reason() -> None:
    with pytest.raises(UndeterminedError, match="GPU 0: out of memory"):
        values_of(TorchAnswer(failed="out of memory", stage="memory"), _Value, "GPU 0")
