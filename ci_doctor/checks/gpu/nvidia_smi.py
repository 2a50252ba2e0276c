# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: asks the NVIDIA driver by `nvidia-smi`, once for all checks."""

import re
import shutil
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.pci_gpus import has_pci_gpu
from ci_doctor.checks.gpu.smi_log import SmiGpu, SmiLog
from ci_doctor.checks.gpu.smi_xml import lines_beside, parse_smi_xml

QUERY: Final = ("nvidia-smi", "-q", "-x")
# `  MIG 1g.10gb     Device  0: (UUID: MIG-…)` below `GPU 0: NVIDIA H100 (UUID: GPU-…)`.
_GPU_LINE = re.compile(r"GPU (\d+): ")
_PART_LINE = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)")


class SmiAnswer(Struct, frozen=True, kw_only=True):
    """What nvidia-smi answered.

    `log` is None if it failed. `lines` are what it printed besides the document: errors and
    warnings. `exit_code` is None if it could not be started; then `lines` say why. `is_idle`: it
    failed because the machine has no NVIDIA GPU (an image may bring nvidia-smi anywhere); `log` is
    an empty one then. `is_cut`: there is no whole document, and no error either. Then it was killed,
    or could not write (a full disk), and nothing is known of the driver.
    """

    log: SmiLog | None
    exit_code: int | None
    lines: tuple[str, ...] = ()
    is_idle: bool = False
    is_cut: bool = False


class MigPart(Struct, frozen=True, kw_only=True):
    """A MIG device as `nvidia-smi -L` names it; `gpu` and `index` are nvidia-smi's."""

    gpu: int
    index: int
    profile: str
    uuid: str


def ask_driver(context: CheckContext) -> SmiAnswer:
    """The answer to `nvidia-smi -q -x`. For CheckContext.shared."""
    if shutil.which(QUERY[0], path=context.environ.get("PATH", "")) is None:
        return SmiAnswer(log=None, exit_code=None, lines=("`nvidia-smi` is not on PATH",))
    try:
        ran = context.run(QUERY)
    except InterruptedError:
        raise
    except OSError as error:
        line = f"`nvidia-smi` cannot be started: {error.strerror}"
        return SmiAnswer(log=None, exit_code=None, lines=(line,))
    log = parse_smi_xml(ran.stdout)
    # It reports most errors on stdout.
    lines = lines_beside(ran.stdout) + lines_beside(ran.stderr)
    is_cut = log is None and (ran.exit_code or 0) <= 0 and not lines
    if log is None and "<nvidia_smi_log" in ran.stdout:
        lines = ["its XML is cut off or damaged", *lines_beside(ran.stderr)]
        is_cut = (ran.exit_code or 0) <= 0
    is_idle = log is None and _has_no_gpu(context)
    if is_idle:
        log = SmiLog(driver=None, cuda=None, gpus=())
    return SmiAnswer(
        log=log,
        exit_code=ran.exit_code,
        lines=tuple(lines),
        is_idle=is_idle,
        is_cut=is_cut and not is_idle,
    )


def _has_no_gpu(context: CheckContext) -> bool:
    """Whether no driver is loaded, and the PCI bus shows no GPU. False if that is unknown."""
    if is_driver_loaded(context):
        return False
    return has_pci_gpu(context.sys) is False


def is_driver_loaded(context: CheckContext) -> bool:
    """Whether the kernel has NVIDIA's driver, or under WSL that of Windows."""
    if (context.proc / "driver" / "nvidia").exists() or (context.dev / "dxg").exists():
        return True
    return any(context.dev.glob("nvidia[0-9]*"))


def driver_log(context: CheckContext) -> SmiLog:
    """What the driver says of its GPUs. Raises UndeterminedError if nvidia-smi has no answer."""
    answer = context.shared(ask_driver)
    if answer.log is None:
        raise UndeterminedError(f"nvidia-smi has no answer: {answer_words(answer)}")
    return answer.log


def gpus_of(context: CheckContext) -> tuple[SmiGpu, ...]:
    """The GPUs that the driver can reach. Raises UndeterminedError if nvidia-smi has no answer."""
    return tuple(gpu for gpu in driver_log(context).gpus if gpu.lost is None)


def answer_words(answer: SmiAnswer) -> str:
    """The first line that nvidia-smi printed, or how it ended; without a full stop."""
    if answer.lines:
        return answer.lines[0].rstrip(".")
    if (answer.exit_code or 0) < 0:
        return f"it was ended by signal {-(answer.exit_code or 0)}"
    return f"exit code {answer.exit_code}, no output"


def mig_parts(context: CheckContext) -> tuple[MigPart, ...]:
    """The MIG devices with their names, which the XML leaves out. For CheckContext.shared.

    Raises UndeterminedError if nvidia-smi fails, and OSError if it cannot be started.
    """
    ran = context.run(("nvidia-smi", "-L"))
    if ran.exit_code != 0:
        raise UndeterminedError(f"`nvidia-smi -L` failed: {ran.last_words}")
    return parse_mig_parts(ran.stdout)


def parse_mig_parts(text: str) -> tuple[MigPart, ...]:
    """The MIG devices in the output of `nvidia-smi -L`."""
    gpu = 0
    parts = []
    for line in text.splitlines():
        head = _GPU_LINE.match(line)
        if head is not None:
            gpu = int(head[1])
        match = _PART_LINE.match(line)
        if match is not None:
            part = MigPart(gpu=gpu, index=int(match[2]), profile=match[1], uuid=match[3])
            parts.append(part)
    return tuple(parts)
