# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: the facts by which a cache's validity is decided, each at most once.

Starts nothing but compilers with `--version`, and nvidia-smi if NVIDIA's library does not answer.
"""

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from ci_doctor.caches.families import packages, toolchain
from ci_doctor.caches.families.fact_names import JOB
from ci_doctor.caches.families.gpu_facts import GpuFacts
from ci_doctor.caches.families.unknown_fact import UnknownFactError
from ci_doctor.caches.families.vector_isa import UnknownIsaError, vector_isa
from ci_doctor.machine.gpus import PROC, gpu_view
from ci_doctor.machine.host import first_cpu, libc_version
from ci_doctor.machine.interpreters import Interpreter, read_venv_keys
from ci_doctor.machine.packages import find_package


class FactReader:
    """Facts of one job: its environment, its Python (None: unknown), the machine.

    Keep one for all families of a job: what is read is kept.
    """

    def __init__(
        self, environ: Mapping[str, str], interpreter: Interpreter | None, proc: Path = PROC
    ) -> None:
        self.environ = environ
        self._interpreter = interpreter
        self._proc = proc
        self._known: dict[str, str | UnknownFactError] = {}

    def read(self, name: str) -> str:
        """The fact `name`. Raises UnknownFactError with the reason."""
        if name not in self._known:
            try:
                self._known[name] = self._reader_of(name)()
            except UnknownFactError as error:
                self._known[name] = error
        known = self._known[name]
        if isinstance(known, UnknownFactError):
            raise known
        return known

    def place_of(self, distribution: str | None) -> str:
        """The directory that holds a distribution; without one, that of the Python environment."""
        directories = self.directories
        package = find_package(distribution, directories) if distribution else None
        if package is not None:
            return str(package.folder.parent)
        return str(Path(self.interpreter.python).absolute().parent.parent)

    @property
    def interpreter(self) -> Interpreter:
        """Raises UnknownFactError without one."""
        if self._interpreter is None:
            raise UnknownFactError("it is uncertain which Python the job runs")
        return self._interpreter

    @property
    def directories(self) -> tuple[Path, ...]:
        """Where Python looks for libraries. Raises UnknownFactError."""
        return self.interpreter.directories

    def _reader_of(self, name: str) -> Callable[[], str]:
        kind, _, rest = name.partition(".")
        if kind == "package":
            return lambda: packages.package_build(rest, self.directories)
        if kind == "torch":
            return lambda: packages.torch_fact(rest, self.directories)
        if name in JOB:
            return lambda: self._variable(JOB[name])
        readers: dict[str, Callable[[], str]] = {
            "os.architecture": lambda: f"linux {os.uname().machine}",
            "glibc": _glibc,
            "python.abi": self._python_abi,
            "python.base": self._python_base,
            "cpu.isa": self._cpu_isa,
            "cpu.model": self._cpu_model,
            "cpu.threads": self._cpu_threads,
            "gpu.names": self._gpus.names,
            "gpu.capability": self._gpus.capability,
            "driver": self._gpus.driver,
            "driver.major": lambda: self._gpus.driver().partition(".")[0],
            "compiler": lambda: toolchain.compiler_version(self.environ),
            "compiler.native": lambda: toolchain.native_answer(self.environ),
            "python.packages": lambda: packages.packages_build(self.directories),
            "nvcc": lambda: toolchain.nvcc_version(self.environ),
            "cuda.home": lambda: toolchain.cuda_home(self.environ),
        }
        return readers.get(name) or _unread

    def _variable(self, variable: str) -> str:
        value = self.environ.get(variable)
        if not value:
            raise UnknownFactError(f"{variable} is not set")
        return value

    @cached_property
    def _base(self) -> Path:
        return self.interpreter.python.resolve().parent.parent

    def _python_base(self) -> str:
        """Where the headers of Python lie: what a venv names as its home, else what is linked to."""
        python = self.interpreter.python.absolute()
        home = (read_venv_keys(python.parent.parent) or {}).get("home")
        return str(Path(home).parent) if home else str(self._base)

    def _python_abi(self) -> str:
        """The tag of extension modules, from one of the standard library's own."""
        version = self.interpreter.version
        modules = self._base.glob(f"lib/python{version}/lib-dynload/*.cpython-*.so")
        names = sorted(path.name.split(".")[1] for path in modules)
        return names[0] if names else f"cpython-{version}-{os.uname().machine}"

    @cached_property
    def _cpu(self) -> Mapping[str, str]:
        return first_cpu(self._proc)

    def _cpu_isa(self) -> str:
        flags = (self._cpu.get("flags") or self._cpu.get("Features") or "").split()
        capability = self.environ.get("ATEN_CPU_CAPABILITY")
        try:
            return vector_isa(os.uname().machine, flags, capability, self._sve_bytes())
        except UnknownIsaError as error:
            raise UnknownFactError(str(error)) from error

    def _sve_bytes(self) -> int | None:
        try:
            return int((self._proc / "sys/abi/sve_default_vector_length").read_text())
        except (OSError, ValueError):
            return None

    def _cpu_model(self) -> str:
        name = self._cpu.get("model name") or self._cpu.get("CPU part")
        if name is None:
            raise UnknownFactError("/proc/cpuinfo does not name it")
        return f"{name}, {len(os.sched_getaffinity(0))} CPUs"

    def _cpu_threads(self) -> str:
        """MKL's variable goes before OpenMP's in torch; without one, the cores are counted."""
        for variable in ("MKL_NUM_THREADS", "OMP_NUM_THREADS"):
            if value := self.environ.get(variable):
                return value.split(",")[0].strip()
        usable = len(os.sched_getaffinity(0))
        siblings, cores = (self._cpu.get(key, "?") for key in ("siblings", "cpu cores"))
        return f"those of {usable} CPUs ({siblings} threads on {cores} cores)"

    @cached_property
    def _gpus(self) -> GpuFacts:
        return GpuFacts(gpu_view(self.environ, self._proc))


def _glibc() -> str:
    libc = libc_version()
    if not libc:
        raise UnknownFactError("this is not glibc, and another libc does not tell its version")
    return libc


def _unread() -> str:
    raise UnknownFactError("no fact has this name")
