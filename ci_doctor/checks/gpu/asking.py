# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: asks the NVIDIA driver by `nvidia-smi`, once for all checks."""

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.machine.gpus import VISIBLE, DriverAnswer, GpuView, ask_driver, ask_mig_devices
from ci_doctor.machine.nvidia_smi import DriverReport, Gpu


def driver_answer(context: CheckContext) -> DriverAnswer:
    """The answer to `nvidia-smi -q -x`. For CheckContext.shared."""
    return ask_driver(context.run, context.environ, context.root)


def driver_report(context: CheckContext) -> DriverReport:
    """What the driver says of its GPUs. Raises UndeterminedError if nvidia-smi has no answer."""
    answer = context.shared(driver_answer)
    if answer.report is None:
        raise UndeterminedError(f"nvidia-smi has no answer: {answer.words}")
    return answer.report


def gpus_of(context: CheckContext) -> tuple[Gpu, ...]:
    """The GPUs that the driver can reach. Raises UndeterminedError if nvidia-smi has no answer."""
    return tuple(gpu for gpu in driver_report(context).gpus if gpu.lost is None)


def gpu_view(context: CheckContext) -> GpuView:
    """The GPUs with their MIG devices. For CheckContext.shared.

    Raises UndeterminedError if nvidia-smi has no answer, InfraError if it lists no MIG devices.
    """
    gpus = gpus_of(context)
    parts = ask_mig_devices(context.run, gpus)
    return GpuView(gpus=gpus, chosen=context.environ.get(VISIBLE), parts=parts)
