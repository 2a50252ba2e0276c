# SPDX-License-Identifier: Apache-2.0
"""Which interpreter is measured with, and which GPU is which."""

import os
import sys
from pathlib import Path

import pytest
from ci_doctor.checks.gpu_proof.cards import read_torch, used_memory, working_cards

from ci_doctor.checks.check import UndeterminedError
from tests.support.checks import check_context
from tests.support.gpu_proof import proof_context, proof_environ, write_nvidia_smi

MIB = 2**20


def test_the_first_interpreter_whose_torch_answers_is_taken(tmp_path: Path) -> None:
    without = tmp_path / "python"
    without.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} -S "$@"\n')
    without.chmod(0o755)
    context = check_context(
        tmp_path,
        environ=proof_environ(tmp_path),
        pythons=[without, Path(sys.executable)],
    )

    assert read_torch(context).python == Path(sys.executable)


def test_without_any_that_answers_the_one_with_a_torch_says_why(tmp_path: Path) -> None:
    without = tmp_path / "python"
    without.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} -S "$@"\n')
    without.chmod(0o755)
    context = check_context(
        tmp_path,
        environ=proof_environ(tmp_path, cuda=None),
        pythons=[without, Path(sys.executable)],
    )

    assert read_torch(context).failed == "it is built without CUDA"


def test_no_interpreter_is_undetermined(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError, match="no Python interpreter"):
        read_torch(check_context(tmp_path, environ=os.environ))


def test_cards_are_matched_by_uuid_whatever_their_order(tmp_path: Path) -> None:
    rows = "0, GPU-00000000-0000-0000-0000-000000000001, NVIDIA H200, 4\n1, GPU-00000000-0000-0000-0000-000000000000, NVIDIA H200, 900"
    write_nvidia_smi(tmp_path / "bin", {"memory.used": rows})

    cards = working_cards(proof_context(tmp_path / "bin", devices=2))

    assert [card.driver and card.driver["index"] for card in cards] == ["1", "0"]


def test_a_gpu_that_nvidia_smi_does_not_name_has_no_row(tmp_path: Path) -> None:
    write_nvidia_smi(tmp_path / "bin")
    context = proof_context(tmp_path / "bin", devices=2)

    second = working_cards(context)[1]

    assert second.driver is None
    with pytest.raises(UndeterminedError, match="does not name GPU 1"):
        used_memory(context, second)


def test_a_gpu_that_cannot_compute_is_not_measured(tmp_path: Path) -> None:
    write_nvidia_smi(tmp_path / "bin")

    cards = working_cards(proof_context(tmp_path / "bin", devices=2, broken=0))

    assert [card.device.index for card in cards] == [1]


def test_used_memory_is_that_of_the_card(tmp_path: Path) -> None:
    rows = (
        "GPU-00000000-0000-0000-0000-000000000001, 4\nGPU-00000000-0000-0000-0000-000000000000, 512"
    )
    write_nvidia_smi(tmp_path / "bin", {"uuid,memory.used": rows})
    context = proof_context(tmp_path / "bin")

    assert used_memory(context, working_cards(context)[0]) == 512 * MIB
