# SPDX-License-Identifier: Apache-2.0
"""Reads whether CUDA's libraries come from one place: wheels of one major, LD_LIBRARY_PATH."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.cuda_compatibility import major, version_key
from ci_doctor.checks.gpu.cuda_wheels import SHARED_PLACES, CudaWheel, cuda_wheels, mixed
from ci_doctor.checks.gpu.library_files import (
    LibraryFile,
    library_files,
    owner_of,
)
from ci_doctor.checks.gpu.rules import CUDA_LIBRARY_TWICE, CUDA_MAJORS_MIXED
from ci_doctor.checks.gpu.torch_build import InterpreterLibraries, read_libraries
from ci_doctor.model.finding import Evidence, Severity, ShellCommand
from ci_doctor.render.formatting import amount

# The library of each file that may lie on LD_LIBRARY_PATH. libcublasLt comes with libcublas.
_WHEEL_OF: Final = {
    "libnccl.so": "nvidia-nccl",
    "libcudnn.so": "nvidia-cudnn",
    "libcublas.so": "nvidia-cublas",
    "libcudart.so": "nvidia-cuda-runtime",
}


def _run(context: CheckContext) -> CheckResult:
    problems: list[Problem] = []
    count = 0
    files = tuple(library_files(_library_path(context)))
    for libraries in context.shared(read_libraries):
        wheels = cuda_wheels(libraries.installed)
        count += len(wheels)
        problems.extend(_mixed(libraries, wheels))
        problems.extend(_beside(libraries, wheels, files))
    return CheckResult(
        summary=f"{amount(count, 'wheel')} with CUDA libraries", problems=tuple(problems)
    )


def _library_path(context: CheckContext) -> list[Path]:
    entries = context.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [context.cwd / entry for entry in entries if entry]


def _mixed(libraries: InterpreterLibraries, wheels: Sequence[CudaWheel]) -> list[Problem]:
    """One problem for an interpreter: what is mixed stands in the evidence."""
    several = mixed(wheels)
    if not several:
        return []
    torch = libraries.torch
    wanted = major(torch.cuda) if torch else None
    lines = []
    wrong = []
    for library, same in sorted(several.items()):
        line = ", ".join(f"{each.distribution.name} {each.distribution.version}" for each in same)
        owner = _owner(library, same)
        if owner is not None:
            line += f"; the file that both install is that of {owner.distribution.name}"
            if wanted is not None and owner.cuda != wanted:
                wrong.append(owner.distribution.name)
        lines.append(line)
    majors = sorted({each.cuda for same in several.values() for each in same})
    words = f"{libraries.python} has libraries for CUDA {' and '.join(map(str, majors))}"
    severity = None
    if wrong:
        severity = Severity.ERROR
        words += f"; PyTorch was built for {wanted}, and would load that of {', '.join(wrong)}"
    evidence = (Evidence(excerpt="\n".join(lines)),)
    remedy = _uninstall(libraries, several, wanted)
    return [problem(CUDA_MAJORS_MIXED, words, severity=severity, evidence=evidence, remedy=remedy)]


def _owner(library: str, same: Sequence[CudaWheel]) -> CudaWheel | None:
    place = SHARED_PLACES.get(library)
    if place is None:
        return None
    return owner_of(same, place)


def _uninstall(
    libraries: InterpreterLibraries, several: dict[str, list[CudaWheel]], wanted: int | None
) -> ShellCommand | None:
    """Removing a wheel takes the file that both install, so the right one is installed again."""
    if wanted is None:
        return None
    foreign = []
    kept = []
    for same in several.values():
        for wheel in same:
            distribution = wheel.distribution
            if wheel.cuda == wanted:
                kept.append(f"{distribution.name}=={distribution.version}")
            else:
                foreign.append(distribution.name)
    pip = f"{libraries.python} -m pip"
    return ShellCommand(
        f"{pip} uninstall -y {' '.join(sorted(foreign))}\n"
        f"{pip} install --force-reinstall --no-deps {' '.join(sorted(kept))}"
    )


def _beside(
    libraries: InterpreterLibraries, wheels: Sequence[CudaWheel], files: Sequence[LibraryFile]
) -> Iterator[Problem]:
    """Files on LD_LIBRARY_PATH that are another version than the wheel's."""
    if libraries.torch is None:
        return
    cuda = major(libraries.torch.cuda)
    for file in files:
        for wheel in wheels:
            if wheel.library != _WHEEL_OF.get(file.name) or wheel.cuda != cuda:
                continue
            if not _differs(file.version, wheel.distribution.version):
                continue
            words = (
                f"{file.path} on LD_LIBRARY_PATH is {file.version}, and "
                f"{wheel.distribution.name} of {libraries.python} is {wheel.distribution.version}"
            )
            yield problem(CUDA_LIBRARY_TWICE, words)


def _differs(one: str, other: str) -> bool:
    """By the numbers that both have: `12` of a file's name says little about 12.8.4.1.

    Another first number is another name (libcudnn.so.8, libcudnn.so.9), and disturbs nothing.
    """
    first, second = version_key(one), version_key(other)
    if first[:1] != second[:1]:
        return False
    shared = min(len(first), len(second))
    return first[:shared] != second[:shared]


CHECK = DoctorCheck(
    id="gpu/libraries",
    title="CUDA libraries of two majors, or from two places",
    need=Need.GPU,
    cost=Cost.PROGRAM,
    run=_run,
)
