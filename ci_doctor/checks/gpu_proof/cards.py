# SPDX-License-Identifier: Apache-2.0
"""Reads the GPUs that the job's torch sees, and what the driver says of each."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu_proof.driver import Fields, number, query
from ci_doctor.checks.gpu_proof.program import TorchAnswer, ask_torch, values_of

# A cold import of torch from a network file system takes tens of seconds.
TORCH_LIMIT_S: Final = 90.0
_FIELDS: Final = ("index", "uuid", "name", "memory.used")


class TorchDevice(Struct, frozen=True, kw_only=True):
    """A GPU as torch counts it: `memory` in bytes, `failed` the error of a small computation.

    `uuid` is None before torch 2.5.
    """

    index: int
    name: str
    uuid: str | None
    memory: int
    failed: str | None


class _Devices(Struct, frozen=True, kw_only=True):
    devices: tuple[TorchDevice, ...]


class TorchReading(Struct, frozen=True, kw_only=True):
    """The interpreter to measure with, and its GPUs, or why it can use none (`failed`, `stage`)."""

    python: Path
    torch: str | None
    cuda: str | None
    devices: tuple[TorchDevice, ...] = ()
    failed: str | None = None
    stage: str | None = None


class ProofCard(Struct, frozen=True, kw_only=True):
    """A GPU to be measured. `driver` is the row of nvidia-smi, None if it cannot be told apart."""

    device: TorchDevice
    driver: Fields | None

    @property
    def label(self) -> str:
        """`GPU 0 (NVIDIA H200)`: the number is that of the job's torch."""
        return f"GPU {self.device.index} ({self.device.name})"

    @property
    def uuid(self) -> str | None:
        """As nvidia-smi prints it; None if it does not name this GPU."""
        return None if self.driver is None else self.driver["uuid"]


def read_torch(context: CheckContext) -> TorchReading:
    """The first interpreter of the job whose torch answers, or else the one that came furthest.

    Raises UndeterminedError if the job has no interpreter.
    """
    readings = []
    for target in context.targets:
        answer = ask_torch(context, target.python, "devices", {}, limit_s=TORCH_LIMIT_S)
        reading = _reading(target.python, answer)
        if reading.failed is None:
            return reading
        readings.append(reading)
    if not readings:
        raise UndeterminedError("no Python interpreter was chosen or found")
    with_torch = [reading for reading in readings if reading.torch is not None]
    return (with_torch or readings)[0]


def _reading(python: Path, answer: TorchAnswer) -> TorchReading:
    reading = TorchReading(
        python=python,
        torch=answer.torch,
        cuda=answer.cuda,
        failed=answer.failed,
        stage=answer.stage,
    )
    if answer.values is None:
        return reading
    devices = values_of(answer, _Devices, "the devices").devices
    return TorchReading(python=python, torch=answer.torch, cuda=answer.cuda, devices=devices)


def working_torch(context: CheckContext) -> TorchReading:
    """As `read_torch`. Raises UndeterminedError if no GPU can be used."""
    reading = context.shared(read_torch)
    if reading.failed is not None:
        raise UndeterminedError(f"{reading.python}: {reading.failed}")
    if not any(device.failed is None for device in reading.devices):
        raise UndeterminedError(f"{reading.python}: torch can compute on no GPU")
    return reading


def working_cards(context: CheckContext) -> tuple[ProofCard, ...]:
    """The GPUs that torch can compute on. Raises UndeterminedError if there is none."""
    reading = working_torch(context)
    try:
        rows = query(context, "gpu", _FIELDS)
    except UndeterminedError:
        rows = []
    working = [device for device in reading.devices if device.failed is None]
    return tuple(ProofCard(device=device, driver=_row_of(device, rows)) for device in working)


def _row_of(device: TorchDevice, rows: list[Fields]) -> Fields | None:
    """By UUID; without one only where nothing can be confused. A part of a GPU (MIG) has no row."""
    if device.uuid is not None:
        uuid = device.uuid.removeprefix("GPU-")
        for row in rows:
            if (row["uuid"] or "").removeprefix("GPU-") == uuid:
                return row
        return None
    if len(rows) == 1 and rows[0]["name"] == device.name:
        return rows[0]
    return None


def used_memory(context: CheckContext, card: ProofCard) -> int:
    """Bytes in use on this GPU by anyone. Raises UndeterminedError if the driver does not say."""
    if card.driver is None:
        raise UndeterminedError(f"nvidia-smi does not name {card.label}")
    for row in query(context, "gpu", ("uuid", "memory.used")):
        mebibytes = number(row, "memory.used")
        if row["uuid"] == card.driver["uuid"] and mebibytes is not None:
            return mebibytes * 2**20
    raise UndeterminedError(f"nvidia-smi does not say how much memory of {card.label} is used")
