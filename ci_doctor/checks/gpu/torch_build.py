# SPDX-License-Identifier: Apache-2.0
"""Reads the files of a PyTorch: for which CUDA it was built. It is not imported."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.identity.libraries import Installed, installed
from ci_doctor.machine.interpreters import (
    TargetInterpreter,
    UnknownInterpreterError,
    interpreter_of,
)

if TYPE_CHECKING:
    from ci_doctor.checks.python.python_state import PythonState

# Of torch/version.py, which the build writes: `cuda: Optional[str] = '12.8'`.
_ASSIGNED = r"(?m)^{name}\s*(?::[^=\n]*)?=\s*(?:['\"]([^'\"]*)['\"]|None)"
_CUDA_LOCAL = re.compile(r"\+cu(\d{2,3})\b")
_LIMIT = 64 << 10


class TorchBuild(Struct, frozen=True, kw_only=True):
    """PyTorch in one interpreter.

    `cuda` is the version that it was built for, `hip` the same for AMD; both None for a CPU build.
    """

    python: Path
    version: str
    cuda: str | None
    hip: str | None = None

    @property
    def is_for_cpu(self) -> bool:
        """Whether it cannot use a GPU at all."""
        return self.cuda is None and self.hip is None


class InterpreterLibraries(Struct, frozen=True, kw_only=True):
    """What decides GPU computations in one interpreter, and where it looks for libraries."""

    python: Path
    directories: tuple[Path, ...]
    installed: tuple[Installed, ...]
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
    directories = _directories(target, context)
    distributions = tuple(installed(directories))
    return InterpreterLibraries(
        python=target.python,
        directories=directories,
        installed=distributions,
        torch=_torch(target.python, distributions),
    )


def _directories(target: TargetInterpreter, context: CheckContext) -> tuple[Path, ...]:
    """By the files; if `python3` is a script (pyenv), by a start of it."""
    try:
        return interpreter_of([str(target.python)], context.environ, context.cwd).directories
    except UnknownInterpreterError as error:
        state = _started(target, context)
        if state is None:
            raise UndeterminedError(str(error)) from error
    return tuple(Path(entry) for entry in state.path if entry)


def _started(target: TargetInterpreter, context: CheckContext) -> "PythonState | None":
    from ci_doctor.checks.python.interpreter_starts import read_starts

    for start in context.shared(read_starts):
        if start.target == target:
            return start.state
    return None


def _torch(python: Path, distributions: Sequence[Installed]) -> TorchBuild | None:
    """The first one on the path is the one that is imported."""
    for distribution in distributions:
        if distribution.name == "torch":
            text = _text(distribution.folder.parent / "torch" / "version.py")
            return parse_torch(python, distribution.version, text)
    return None


def parse_torch(python: Path, version: str, text: str | None) -> TorchBuild:
    """By the text of torch/version.py, else by the local part of the version (`2.9.0+cu128`)."""
    if not text:
        cuda = _local_cuda(version)
        # The wheels of PyPI have CUDA and no local version: only the file tells.
        if cuda is None and "+cpu" not in version:
            raise UndeterminedError(
                f"torch/version.py of PyTorch {version} ({python}) cannot be read"
            )
        return TorchBuild(python=python, version=version, cuda=cuda)
    return TorchBuild(
        python=python,
        version=version,
        cuda=_assigned(text, "cuda"),
        hip=_assigned(text, "hip"),
    )


def _assigned(text: str, name: str) -> str | None:
    match = re.search(_ASSIGNED.format(name=name), text)
    if match is None:
        return None
    return match[1]


def _local_cuda(version: str) -> str | None:
    """`cu128` is 12.8: the last digit is the minor."""
    match = _CUDA_LOCAL.search(version)
    if match is None:
        return None
    return f"{match[1][:-1]}.{match[1][-1]}"


def _text(path: Path) -> str | None:
    try:
        with path.open(errors="replace") as file:
            return file.read(_LIMIT)
    except OSError:
        return None
