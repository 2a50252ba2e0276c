# SPDX-License-Identifier: Apache-2.0
"""Reads whether the driver, PyTorch and nvcc agree on CUDA."""

from collections.abc import Iterator
from pathlib import Path

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    DoctorCheck,
    Need,
    Problem,
    UndeterminedError,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.cuda_compatibility import least_driver, major
from ci_doctor.checks.gpu.cuda_toolkit import CudaToolkit, read_toolkit
from ci_doctor.checks.gpu.driver_file import loaded_driver
from ci_doctor.checks.gpu.nvidia_smi import driver_log
from ci_doctor.checks.gpu.rules import DRIVER_TOO_OLD, TOOLKIT_DIFFERS
from ci_doctor.checks.gpu.torch_build import TorchBuild, torch_builds
from ci_doctor.checks.settings import SERVING
from ci_doctor.model.finding import Severity, ShellCommand


def _run(context: CheckContext) -> CheckResult:
    builds = [build for build in torch_builds(context) if build.cuda is not None]
    toolkit, unknown_toolkit = _toolkit(context)
    driver, unknown = _driver(context)
    problems: list[Problem] = []
    for build in builds:
        problems.extend(_against_driver(build, driver, context))
        problems.extend(_against_toolkit(build, toolkit, context))
    return CheckResult(
        summary=_summary(driver, builds, toolkit),
        problems=tuple(problems),
        unknown=(unknown or unknown_toolkit) if builds else None,
    )


def _toolkit(context: CheckContext) -> tuple[CudaToolkit | None, str | None]:
    """The toolkit, or None and why it is unknown: the driver is judged without it."""
    try:
        return context.shared(read_toolkit), None
    except InterruptedError:
        raise
    except OSError as error:
        return None, f"nvcc cannot be started: {error.strerror}"
    except UndeterminedError as error:
        return None, str(error)


def _driver(context: CheckContext) -> tuple[str | None, str | None]:
    """The driver's version, or None and why it is unknown. Its file answers even if it hangs."""
    version = loaded_driver(context.proc)
    if version is not None:
        return version, None
    try:
        version = driver_log(context).driver
    except UndeterminedError as error:
        return None, str(error)
    if version is None:
        return None, "nvidia-smi names no version of the driver"
    return version, None


def _against_driver(
    build: TorchBuild, driver: str | None, context: CheckContext
) -> Iterator[Problem]:
    cuda, branch = major(build.cuda), major(driver)
    if cuda is None or branch is None:
        return
    least = least_driver(cuda)
    if least is None or branch >= least:
        return
    words = (
        f"PyTorch {build.version} of {build.python} was built for CUDA {build.cuda}, which needs "
        f"driver {least} or later; this one is {driver}"
    )
    compat = _forward_libraries(context)
    if compat is None:
        yield problem(DRIVER_TOO_OLD, words)
        return
    # It works on GPUs for data centers only, and the files do not tell which one this is.
    words += f"; libcuda of {compat} may make up for it (forward compatibility)"
    yield problem(DRIVER_TOO_OLD, words, severity=Severity.NOTE)


def _forward_libraries(context: CheckContext) -> Path | None:
    """The directory of a package cuda-compat, if the loader would look there."""
    for entry in context.environ.get("LD_LIBRARY_PATH", "").split(":"):
        place = context.cwd / entry
        if entry and "compat" in place.parts and any(place.glob("libcuda.so*")):
            return place
    return None


def _against_toolkit(
    build: TorchBuild, toolkit: CudaToolkit | None, context: CheckContext
) -> Iterator[Problem]:
    if toolkit is None or major(build.cuda) == major(toolkit.version):
        return
    words = (
        f"nvcc of {toolkit.home} is CUDA {toolkit.version}, and PyTorch {build.version} of "
        f"{build.python} was built for {build.cuda}"
    )
    other = context.root / "usr" / "local" / f"cuda-{build.cuda}"
    remedy = None
    if (other / "bin" / "nvcc").exists():
        remedy = ShellCommand(f"export CUDA_HOME=/usr/local/cuda-{build.cuda}")
    yield problem(TOOLKIT_DIFFERS, words, remedy=remedy)


def _summary(driver: str | None, builds: list[TorchBuild], toolkit: CudaToolkit | None) -> str:
    texts = [f"driver {driver or 'of unknown version'}"]
    if builds:
        versions = sorted({str(build.cuda) for build in builds})
        texts.append(f"PyTorch for CUDA {', '.join(versions)}")
    else:
        texts.append("no PyTorch for CUDA")
    texts.append(f"nvcc {toolkit.version}" if toolkit else "no nvcc")
    return ", ".join(texts)


CHECK = DoctorCheck(
    id="gpu/cuda",
    title="driver, PyTorch and nvcc against each other",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    needed_for=SERVING,
    run=_run,
)
