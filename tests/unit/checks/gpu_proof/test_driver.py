# SPDX-License-Identifier: Apache-2.0
"""What nvidia-smi prints, and what it prints in place of an answer."""

from pathlib import Path

import pytest
from ci_doctor.checks.gpu_proof.driver import number, parse_rows, query

from ci_doctor.checks.check import UndeterminedError
from tests.support.checks import check_context
from tests.support.gpu_proof import proof_context, write_nvidia_smi

FIELDS = ("index", "name", "pcie.link.width.current")


def test_rows_are_read_and_messages_left_out() -> None:
    text = (
        "0, NVIDIA H200, 16\nUnable to determine the device handle for GPU1\n2, NVIDIA L4, [N/A]\n"
    )

    rows = parse_rows(text, FIELDS)

    assert [row["index"] for row in rows] == ["0", "2"]
    assert [number(row, "pcie.link.width.current") for row in rows] == [16, None]


@pytest.mark.parametrize(
    "text", ["[N/A]", "[Not Supported]", "[Unknown Error]", "N/A", "[GPU requires reset]", ""]
)
def test_what_stands_for_no_value_is_no_value(text: str) -> None:
    assert parse_rows(f"0, NVIDIA H200, {text}", FIELDS)[0]["pcie.link.width.current"] is None


def test_no_nvidia_smi_is_undetermined(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError, match="not on PATH"):
        query(check_context(tmp_path, environ={"PATH": str(tmp_path)}), "gpu", FIELDS)


def test_a_field_that_this_driver_does_not_know_is_undetermined_with_its_words(
    tmp_path: Path,
) -> None:
    context = proof_context(write_nvidia_smi(tmp_path / "bin"))

    with pytest.raises(UndeterminedError, match="not a valid field"):
        query(context, "gpu", ("unheard.of",))


def test_an_nvidia_smi_that_is_no_program_is_undetermined(tmp_path: Path) -> None:
    program = write_nvidia_smi(tmp_path / "bin") / "nvidia-smi"
    program.write_bytes(b"\x7fELF")

    with pytest.raises(UndeterminedError, match="cannot be started"):
        query(proof_context(tmp_path / "bin"), "gpu", FIELDS)


@pytest.mark.parametrize("text", ["9" * 5000, "²", "-1", "4 MiB"])
def test_what_is_no_number_is_unknown(text: str) -> None:
    assert number({"memory.used": text}, "memory.used") is None
