# SPDX-License-Identifier: Apache-2.0
"""Reads whether the driver, PyTorch, nvcc and NVIDIA's libraries agree on CUDA. PyTorch is not imported.

Wheels for CUDA 11 and 12 have names such as `nvidia-cublas-cu12`. For CUDA 13 most have no suffix,
and their version begins with 13; those that count otherwise keep one (`nvidia-nccl-cu13`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    Findings,
    Need,
    Problem,
    UndeterminedError,
    check,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.driver import driver_report
from ci_doctor.checks.settings import SERVING
from ci_doctor.machine.gpus import CudaToolkit, loaded_driver, nvcc_release, read_toolkit
from ci_doctor.machine.interpreters import (
    TargetInterpreter,
    UnknownInterpreterError,
    locate_python,
)
from ci_doctor.machine.packages import Package, TorchBuild, installed, read_record, torch_build
from ci_doctor.model.outcome import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount

DRIVER_TOO_OLD: Final = Rule(
    id="doctor/gpu-driver-too-old",
    severity=Severity.ERROR,
    meaning="The driver is older than the CUDA that PyTorch was built for needs. "
    "`torch.cuda.is_available()` is False then, or the first call fails.",
    remedy="Update the driver of the machine, or install a PyTorch that was built for an older "
    "CUDA.",
)
TOOLKIT_DIFFERS: Final = Rule(
    id="doctor/cuda-toolkit-differs",
    severity=Severity.WARNING,
    meaning="nvcc belongs to another CUDA major than PyTorch. Extensions cannot be compiled: `The "
    "detected CUDA version mismatches the version that was used to compile PyTorch`.",
    remedy="Point CUDA_HOME at a toolkit of PyTorch's CUDA, or install the other PyTorch.",
)
CUDA_MAJORS_MIXED: Final = Rule(
    id="doctor/cuda-majors-mixed",
    severity=Severity.WARNING,
    meaning="One interpreter has NVIDIA's libraries for two CUDA majors. If wheels of both install "
    "the same file, the one installed last wins. It is an error if that is the wrong one for "
    "PyTorch.",
    remedy="Make the environment anew with one CUDA: every `nvidia-*-cuNN` of the same NN.",
)
CUDA_LIBRARY_TWICE: Final = Rule(
    id="doctor/cuda-library-twice",
    severity=Severity.WARNING,
    meaning="A CUDA library lies in two places in different versions: beside PyTorch and on "
    "LD_LIBRARY_PATH, or loaded twice by a running process. Which one is used depends on what is "
    "loaded first.",
    remedy="Take the directory out of LD_LIBRARY_PATH.",
)

# CUDA major -> the least driver branch. NVIDIA, CUDA Compatibility, "Minor Version Compatibility",
# table 1 (release 590): later releases of a major run on these drivers too, with limits.
CUDA_DRIVERS: Final = {11: 450, 12: 525, 13: 580}

_SUFFIXED = re.compile(r"(nvidia-.+?)-cu(\d{2})")
# Wheels without a suffix whose version begins with the CUDA major.
_COUNT_LIKE_CUDA: Final = frozenset(
    {
        "nvidia-cublas",
        "nvidia-cuda-runtime",
        "nvidia-cuda-nvrtc",
        "nvidia-cuda-cupti",
        "nvidia-nvjitlink",
        "nvidia-nvtx",
    }
)
# Wheels of every major install these at one place, so the last one installed is there.
SHARED_PLACES: Final = {
    "nvidia-nccl": "nvidia/nccl/lib/libnccl.so.2",
    "nvidia-cudnn": "nvidia/cudnn/lib/libcudnn.so.9",
    "nvidia-nvshmem": "nvidia/nvshmem/lib/libnvshmem_host.so.3",
    "nvidia-cusparselt": "nvidia/cusparselt/lib/libcusparseLt.so.0",
}
# The wheel of each library that may lie on LD_LIBRARY_PATH. libcublasLt comes with libcublas.
_LIBRARIES: Final = {
    "libnccl.so": "nvidia-nccl",
    "libcudnn.so": "nvidia-cudnn",
    "libcublas.so": "nvidia-cublas",
    "libcublasLt.so": None,
    "libcudart.so": "nvidia-cuda-runtime",
}


class CudaWheel(Struct, frozen=True, kw_only=True):
    """One of NVIDIA's wheels; `library` is its name without the CUDA major."""

    library: str
    cuda: int
    package: Package


class LibraryFile(Struct, frozen=True, kw_only=True):
    """A library's file. `name` is without a version; `version` is that of the file's name."""

    name: str
    path: Path
    version: str


class InterpreterLibraries(Struct, frozen=True, kw_only=True):
    """What decides GPU computations in one interpreter."""

    python: Path
    installed: tuple[Package, ...]
    torch: TorchBuild | None


def read_libraries(context: CheckContext) -> tuple[InterpreterLibraries, ...]:
    """One for each interpreter of the job. For CheckContext.shared.

    Raises UndeterminedError if it is uncertain where an interpreter looks.
    """
    return tuple(_libraries(target, context) for target in context.targets)


def torch_builds(context: CheckContext) -> tuple[TorchBuild, ...]:
    """The PyTorch of each interpreter of the job that has one. Raises as `read_libraries`."""
    libraries = context.shared(read_libraries)
    return tuple(each.torch for each in libraries if each.torch is not None)


def _libraries(target: TargetInterpreter, context: CheckContext) -> InterpreterLibraries:
    try:
        python = locate_python(str(target.python), context.environ, context.cwd, context.run)
    except UnknownInterpreterError as error:
        raise UndeterminedError(str(error)) from error
    directories = python.directories
    try:
        build = torch_build(directories)
    except ValueError as error:
        raise UndeterminedError(f"{error} ({target.python})") from error
    return InterpreterLibraries(
        python=target.python,
        installed=tuple(installed(directories, lambda name: name.startswith("nvidia-"))),
        torch=None if build is None else replace(build, python=target.python),
    )


@check(
    "gpu/cuda",
    title="driver, PyTorch and nvcc against each other",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    needed_for=SERVING,
)
def cuda(context: CheckContext) -> Findings:
    """A driver too old for PyTorch's CUDA, and an nvcc of another major."""
    builds = [build for build in torch_builds(context) if build.cuda is not None]
    toolkit, unknown_toolkit = _toolkit(context)
    driver, unknown = _driver(context)
    for build in builds:
        yield from _against_driver(build, driver, context)
        if toolkit is not None and _major(build.cuda) != _major(toolkit.version):
            yield _other_toolkit(build, toolkit, context)
    texts = [f"driver {driver or 'of unknown version'}"]
    versions = sorted({str(build.cuda) for build in builds})
    texts.append(f"PyTorch for CUDA {', '.join(versions)}" if builds else "no PyTorch for CUDA")
    texts.append(f"nvcc {toolkit.version}" if toolkit else "no nvcc")
    return CheckResult(
        summary=", ".join(texts), unknown=(unknown or unknown_toolkit) if builds else None
    )


def _toolkit(context: CheckContext) -> tuple[CudaToolkit | None, str | None]:
    """The toolkit, or None and why it is unknown: the driver is judged without it."""
    toolkit = read_toolkit(context.environ, context.cwd, context.root)
    if toolkit is None or toolkit.version is not None:
        return toolkit, None
    if not toolkit.nvcc.exists():
        return None, None
    try:
        ran = context.run((str(toolkit.nvcc), "--version"))
    except InterruptedError:
        raise
    except OSError as error:
        return None, f"nvcc cannot be started: {error.strerror}"
    release = nvcc_release(ran.stdout)
    if release is None:
        return None, f"`{toolkit.nvcc} --version` names no release: {ran.last_words}"
    return replace(toolkit, version=release), None


def _driver(context: CheckContext) -> tuple[str | None, str | None]:
    """The driver's version, or None and why it is unknown. Its file answers even if it hangs."""
    version = loaded_driver(context.proc)
    if version is not None:
        return version, None
    try:
        version = driver_report(context).driver
    except UndeterminedError as error:
        return None, str(error)
    return version, None if version else "nvidia-smi names no version of the driver"


def _against_driver(
    build: TorchBuild, driver: str | None, context: CheckContext
) -> Iterator[Problem]:
    branch = _major(driver)
    least = CUDA_DRIVERS.get(_major(build.cuda) or 0)
    if branch is None or least is None or branch >= least:
        return
    words = (
        f"PyTorch {build.version} of {build.python} was built for CUDA {build.cuda}, which needs "
        f"driver {least} or later; this one is {driver}"
    )
    for place in _library_path(context):
        # A package cuda-compat. It works on GPUs for data centers only, and the files do not tell
        # which one this is.
        if "compat" in place.parts and any(place.glob("libcuda.so*")):
            words += f"; libcuda of {place} may make up for it (forward compatibility)"
            yield problem(DRIVER_TOO_OLD, words, severity=Severity.NOTE)
            return
    yield problem(DRIVER_TOO_OLD, words)


def _other_toolkit(build: TorchBuild, toolkit: CudaToolkit, context: CheckContext) -> Problem:
    words = (
        f"nvcc of {toolkit.home} is CUDA {toolkit.version}, and PyTorch {build.version} of "
        f"{build.python} was built for {build.cuda}"
    )
    other = context.root / "usr" / "local" / f"cuda-{build.cuda}"
    remedy = None
    if (other / "bin" / "nvcc").exists():
        remedy = ShellCommand(f"export CUDA_HOME=/usr/local/cuda-{build.cuda}")
    return problem(TOOLKIT_DIFFERS, words, remedy=remedy)


def _library_path(context: CheckContext) -> list[Path]:
    entries = context.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [context.cwd / entry for entry in entries if entry]


@check(
    "gpu/libraries",
    title="CUDA libraries of two majors, or from two places",
    need=Need.GPU,
    cost=Cost.PROGRAM,
)
def libraries(context: CheckContext) -> Findings:
    """Wheels of two majors in one interpreter, and other versions on LD_LIBRARY_PATH."""
    count = 0
    files = tuple(_library_files(_library_path(context)))
    for each in context.shared(read_libraries):
        wheels = list(cuda_wheels(each.installed))
        count += len(wheels)
        yield from _mixed(each, wheels)
        if each.torch is not None:
            yield from _beside(each.python, _major(each.torch.cuda), wheels, files)
    return f"{amount(count, 'wheel')} with CUDA libraries"


def cuda_wheels(packages: Iterable[Package]) -> Iterator[CudaWheel]:
    """Those of `packages` that belong to one CUDA major."""
    for package in packages:
        match = _SUFFIXED.fullmatch(package.name)
        first = _major(package.version)
        if match is not None:
            yield CudaWheel(library=match[1], cuda=int(match[2]), package=package)
        elif package.name in _COUNT_LIKE_CUDA and first is not None:
            yield CudaWheel(library=package.name, cuda=first, package=package)


def _mixed(libraries: InterpreterLibraries, wheels: Sequence[CudaWheel]) -> Iterator[Problem]:
    """One problem for an interpreter: what is mixed stands in the evidence."""
    by_library: dict[str, list[CudaWheel]] = {}
    for wheel in wheels:
        by_library.setdefault(wheel.library, []).append(wheel)
    several = {name: same for name, same in by_library.items() if len({w.cuda for w in same}) > 1}
    if not several:
        return
    wanted = _major(libraries.torch.cuda) if libraries.torch else None
    lines = []
    wrong = []
    for library, same in sorted(several.items()):
        line = ", ".join(each.package.words for each in same)
        owner = _owner(library, same)
        if owner is not None:
            line += f"; the file that both install is that of {owner.package.name}"
            if wanted is not None and owner.cuda != wanted:
                wrong.append(owner.package.name)
        lines.append(line)
    majors = sorted({each.cuda for same in several.values() for each in same})
    words = f"{libraries.python} has libraries for CUDA {' and '.join(map(str, majors))}"
    if wrong:
        words += f"; PyTorch was built for {wanted}, and would load that of {', '.join(wrong)}"
    yield problem(
        CUDA_MAJORS_MIXED,
        words,
        severity=Severity.ERROR if wrong else None,
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy=_uninstall(libraries.python, several, wanted),
    )


def _owner(library: str, same: Sequence[CudaWheel]) -> CudaWheel | None:
    """Whose file lies at the place of all, by its size in the RECORD of each; None if unsure."""
    place = SHARED_PLACES.get(library)
    if place is None:
        return None
    owners = []
    for wheel in same:
        try:
            size = (wheel.package.site / place).stat().st_size
        except OSError:
            return None
        sizes = [each.size for each in read_record(wheel.package.folder) if each.path == place]
        if size in sizes:
            owners.append(wheel)
    return owners[0] if len(owners) == 1 else None


def _uninstall(
    python: Path, several: dict[str, list[CudaWheel]], wanted: int | None
) -> ShellCommand | None:
    """Removing a wheel takes the file that both install, so the right one is installed again."""
    if wanted is None:
        return None
    wheels = [wheel for same in several.values() for wheel in same]
    foreign = sorted(each.package.name for each in wheels if each.cuda != wanted)
    kept = sorted(
        f"{each.package.name}=={each.package.version}" for each in wheels if each.cuda == wanted
    )
    return ShellCommand(
        f"{python} -m pip uninstall -y {' '.join(foreign)}\n"
        f"{python} -m pip install --force-reinstall --no-deps {' '.join(kept)}"
    )


def _library_files(directories: Iterable[Path]) -> Iterator[LibraryFile]:
    """The first file of each library in `directories`, as the loader would take it.

    Programs ask for `libnccl.so.2`; the file that it links to has the whole version.
    """
    done = set()
    for directory in directories:
        for name in _LIBRARIES:
            try:
                paths = [] if name in done else sorted(directory.glob(f"{name}.[0-9]*"))
            except OSError:
                continue
            if paths:
                done.add(name)
                yield LibraryFile(
                    name=name,
                    path=paths[0],
                    version=paths[0].resolve().name.removeprefix(f"{name}."),
                )


def _beside(
    python: Path, cuda: int | None, wheels: Sequence[CudaWheel], files: Sequence[LibraryFile]
) -> Iterator[Problem]:
    """Files on LD_LIBRARY_PATH that are another version than the wheel's."""
    for file in files:
        for wheel in wheels:
            package = wheel.package
            if wheel.library != _LIBRARIES[file.name] or wheel.cuda != cuda:
                continue
            if _differs(file.version, package.version):
                yield problem(
                    CUDA_LIBRARY_TWICE,
                    f"{file.path} on LD_LIBRARY_PATH is {file.version}, and "
                    f"{package.name} of {python} is {package.version}",
                )


def _differs(one: str, other: str) -> bool:
    """By the numbers that both have: `12` of a file's name says little about 12.8.4.1.

    Another first number is another name (libcudnn.so.8, libcudnn.so.9), and disturbs nothing.
    """
    first, second = _numbers(one), _numbers(other)
    pairs = zip(first, second, strict=False)
    return first[:1] == second[:1] and any(mine != its for mine, its in pairs)


def _numbers(text: str | None) -> tuple[int, ...]:
    """`12.8` as (12, 8), to compare; empty for what is no version."""
    words = (text or "").split(".")
    return tuple(map(int, takewhile(lambda word: word.isascii() and word.isdigit(), words)))


def _major(text: str | None) -> int | None:
    """The first number of a version; None for what is no version."""
    return next(iter(_numbers(text)), None)
