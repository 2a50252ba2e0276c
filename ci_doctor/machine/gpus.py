# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: which GPUs a machine has, which of them a program sees, and which CUDA toolkit would compile here."""

import contextlib
import functools
import importlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import CiDoctorError, InfraError, UsageError
from ci_doctor.machine.host import content_of
from ci_doctor.machine.nvidia_smi import (
    DriverReport,
    Gpu,
    lines_beside,
    mig_gpus,
    parse_mig_list,
    parse_smi_xml,
)
from ci_doctor.system.processes.limited_runs import LimitedRuns, SeparateRun
from ci_doctor.version import install_extra

# Runs a program for a limited time; CheckContext.run is one. Raises OSError if it cannot be started.
RunProgram = Callable[[Sequence[str]], SeparateRun]

PROC: Final = Path("/proc")
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
QUERY: Final = ("nvidia-smi", "-q", "-x")
_LIST: Final = ("nvidia-smi", "-L")
_CAPABILITY: Final = ("nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv,noheader")
_TIMEOUT_S: Final = 15.0
# `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build …`.
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_INDEX = re.compile(r"\+?([0-9]{1,9})(?![0-9])")
_NVIDIA: Final = "0x10de"
# PCI base class 3: display controllers, among them "3D controllers" without a display.
_DISPLAY: Final = "0x03"
_MOST_FILES: Final = 4096
_MIB: Final = 2**20
# Device files of accelerators that are no NVIDIA GPU, or one without NVIDIA's usual driver.
_OTHERS: Final = {
    "kfd": "an AMD GPU",
    "nvhost-gpu": "the GPU of a Jetson",
    "nvgpu/igpu[0-9]*": "the GPU of a Jetson",
    "accel/accel[0-9]*": "an accelerator (/dev/accel)",
    "neuron[0-9]*": "an AWS Neuron device",
    "davinci[0-9]*": "an Ascend NPU",
    "hl[0-9]*": "a Gaudi accelerator",
    "dxg": "a GPU of Windows (WSL)",
}


class DriverAnswer(Struct, frozen=True, kw_only=True):
    """What nvidia-smi answered.

    `report` is None if it failed. `lines` are what it printed besides the document: errors and
    warnings. `exit_code` is None if it could not be started; then `lines` say why. `is_idle`: it
    failed because the machine has no NVIDIA GPU (an image may bring nvidia-smi anywhere); `report` is
    an empty one then. `is_cut`: there is no whole document, and no error either. Then it was killed,
    or could not write (a full disk), and nothing is known of the driver.
    """

    report: DriverReport | None
    exit_code: int | None
    lines: tuple[str, ...] = ()
    is_idle: bool = False
    is_cut: bool = False

    @property
    def words(self) -> str:
        """The first line that nvidia-smi printed, or how it ended; without a full stop."""
        if self.lines:
            return self.lines[0].rstrip(".")
        if (self.exit_code or 0) < 0:
            return f"it was ended by signal {-(self.exit_code or 0)}"
        return f"exit code {self.exit_code}, no output"


class VisibleGpus(Struct, frozen=True, kw_only=True):
    """The GPUs and MIG devices that a program sees, in its order.

    `missing` is the first entry that names nothing, `repeated` the first that comes twice. `parts`
    are entries that name MIG devices of which nothing is known.
    """

    gpus: tuple[Gpu, ...]
    parts: tuple[str, ...] = ()
    missing: str | None = None
    repeated: str | None = None

    @property
    def count(self) -> int:
        """How many devices CUDA counts."""
        return len(self.gpus) + len(self.parts)

    @property
    def usable(self) -> tuple[Gpu, ...]:
        """Those whose memory a program can have: a GPU that is divided gives only its parts."""
        return tuple(gpu for gpu in self.gpus if not gpu.is_partitioned)


class GpuView(Struct, frozen=True, kw_only=True):
    """All GPUs, their known MIG devices (as GPUs of their own), and CUDA_VISIBLE_DEVICES of the job."""

    gpus: tuple[Gpu, ...]
    chosen: str | None
    parts: tuple[Gpu, ...] = ()
    driver: str | None = None

    def visible(self, own: str | None = None) -> VisibleGpus:
        """What a program sees that has `own` in CUDA_VISIBLE_DEVICES; None for the job's value."""
        return visible_gpus(self.gpus, self.chosen if own is None else own, self.parts)


class GpuMemory(Struct, frozen=True, kw_only=True):
    """The memory of one GPU.

    `used` is bytes, None if the GPU has no memory of its own. `holders` are the pids of processes
    that hold some of it; pids of the machine, not of a container.
    """

    index: int
    used: int | None
    holders: tuple[int, ...] = ()

    def describe(self) -> str:
        """`GPU 0 has 1,024 MiB in use, by pid 42`."""
        by = "by no process that NVIDIA's driver names"
        if self.holders:
            by = f"by pid {', '.join(map(str, self.holders))}"
        return f"GPU {self.index} has {(self.used or 0) // _MIB:,} MiB in use, {by}"


def visible_gpus(gpus: Sequence[Gpu], value: str | None, parts: Sequence[Gpu] = ()) -> VisibleGpus:
    """What a program with `value` in CUDA_VISIBLE_DEVICES sees of `gpus`; None for unset.

    `parts` are the MIG devices that are known. CUDA's rule: entries count up to the first that names
    nothing (CUDA C++ Programming Guide, "CUDA Environment Variables"). An entry is an index, the
    beginning of a UUID, or a MIG device (`MIG-…`), which is that device and not its GPU. An index is
    read as strtoul does (`1x` is 1), and an entry that comes twice leaves no GPU at all (torch.cuda,
    `_parse_visible_devices`, which follows the driver).
    """
    if value is None:
        return VisibleGpus(gpus=tuple(gpus))
    visible: list[Gpu] = []
    unknown: list[str] = []
    for entry in value.split(","):
        word = entry.strip()
        is_part = word.startswith("MIG-")
        gpu = _named(parts if is_part else gpus, word)
        if (gpu is not None and gpu in visible) or word in unknown:
            return VisibleGpus(gpus=(), repeated=word)
        if gpu is not None:
            visible.append(gpu)
        elif is_part:
            unknown.append(word)
        else:
            return VisibleGpus(gpus=tuple(visible), parts=tuple(unknown), missing=word)
    return VisibleGpus(gpus=tuple(visible), parts=tuple(unknown))


def _named(gpus: Sequence[Gpu], word: str) -> Gpu | None:
    number = _INDEX.match(word)
    if number is not None:
        index = int(number[1])
        return gpus[index] if index < len(gpus) else None
    if not word:
        return None
    matches = [gpu for gpu in gpus if (gpu.uuid or "").startswith(word) or gpu.former_uuid == word]
    return matches[0] if len(matches) == 1 else None


def ask_driver(run: RunProgram, environ: Mapping[str, str], root: Path = Path("/")) -> DriverAnswer:
    """The answer to `nvidia-smi -q -x`; `root` stands above /proc, /sys and /dev."""
    if shutil.which(QUERY[0], path=environ.get("PATH", "")) is None:
        return DriverAnswer(report=None, exit_code=None, lines=("`nvidia-smi` is not on PATH",))
    try:
        ran = run(QUERY)
    except InterruptedError:
        raise
    except OSError as error:
        line = f"`nvidia-smi` cannot be started: {error.strerror}"
        return DriverAnswer(report=None, exit_code=None, lines=(line,))
    report = parse_smi_xml(ran.stdout)
    # It reports most errors on stdout.
    lines = lines_beside(ran.stdout) + lines_beside(ran.stderr)
    is_cut = report is None and (ran.exit_code or 0) <= 0 and not lines
    if report is None and "<nvidia_smi_log" in ran.stdout:
        lines = ["its XML is cut off or damaged", *lines_beside(ran.stderr)]
        is_cut = (ran.exit_code or 0) <= 0
    is_idle = report is None and not is_driver_loaded(root) and has_pci_gpu(root / "sys") is False
    if is_idle:
        report = DriverReport(driver=None, cuda=None, gpus=())
    return DriverAnswer(
        report=report,
        exit_code=ran.exit_code,
        lines=tuple(lines),
        is_idle=is_idle,
        is_cut=is_cut and not is_idle,
    )


def ask_mig_devices(run: RunProgram, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The MIG devices as GPUs of their own. The XML leaves out their UUIDs, so that is a second run.

    It is not made if no GPU is divided. Raises InfraError if it fails, OSError if it cannot be started.
    """
    if not any(gpu.is_partitioned for gpu in gpus):
        return ()
    ran = run(_LIST)
    if ran.exit_code != 0:
        raise InfraError(f"`nvidia-smi -L` failed: {ran.last_words}")
    return mig_gpus(gpus, parse_mig_list(ran.stdout))


def gpu_view(environ: Mapping[str, str], proc: Path = PROC) -> GpuView | None:
    """The GPUs of this machine for a program with `environ`; None without NVIDIA's driver.

    By NVIDIA's library, which has every field of identity; else by nvidia-smi; else by the driver's
    files, which name the GPUs alone. Raises nothing: what cannot be read is None.
    """
    if not (proc / "driver" / "nvidia" / "version").exists():
        return None
    view = _library_view(environ) or _asked_view(environ)
    if view is None:
        view = GpuView(gpus=proc_gpus(proc), chosen=environ.get(VISIBLE))
    return replace(view, driver=view.driver or loaded_driver(proc))


def _asked_view(environ: Mapping[str, str]) -> GpuView | None:
    programs = LimitedRuns()

    def run(words: Sequence[str]) -> SeparateRun:
        return programs.run(words, cwd=Path("/"), environ=environ, timeout_s=_TIMEOUT_S)

    report = ask_driver(run, environ).report
    if report is None or not report.gpus:
        return None
    with contextlib.suppress(OSError, CiDoctorError):
        rows = [line.partition(",")[::2] for line in run(_CAPABILITY).stdout.splitlines()]
        capabilities = {uuid: capability.strip() for uuid, capability in rows}
        gpus = tuple(
            replace(g, capability=capabilities.get(g.uuid or "") or None) for g in report.gpus
        )
        report = replace(report, gpus=gpus)
    parts: tuple[Gpu, ...] = ()
    with contextlib.suppress(OSError, CiDoctorError):
        parts = ask_mig_devices(run, report.gpus)
    return GpuView(gpus=report.gpus, chosen=environ.get(VISIBLE), parts=parts, driver=report.driver)


def _library_view(environ: Mapping[str, str]) -> GpuView | None:
    """By NVIDIA's library; None if it is not installed or does not answer."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        with _driver(nvml):
            handles = [
                nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())
            ]
            gpus = [_library_gpu(nvml, handle, index) for index, handle in enumerate(handles)]
            return GpuView(
                gpus=tuple(gpus),
                chosen=environ.get(VISIBLE),
                parts=tuple(
                    part
                    for handle, gpu in zip(handles, gpus, strict=True)
                    for part in _library_parts(nvml, handle, gpu)
                ),
                driver=str(nvml.nvmlSystemGetDriverVersion()),
            )
    except nvml.NVMLError:
        return None


def _library_gpu(nvml: Any, handle: Any, index: int) -> Gpu:
    def query(name: str) -> Any:
        try:
            return getattr(nvml, f"nvmlDeviceGet{name}")(handle)
        except (nvml.NVMLError, AttributeError):  # an old library or an old driver
            return None

    capability = query("CudaComputeCapability")
    mig = query("MigMode")
    return Gpu(
        index=index,
        bus_id="",
        name=query("Name") or "unnamed",
        uuid=query("UUID"),
        capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        cores=query("NumGpuCores"),
        # No answer of the driver: a GPU that cannot be partitioned.
        mig="Enabled" if mig is not None and mig[0] else "Disabled",
    )


def _library_parts(nvml: Any, handle: Any, gpu: Gpu) -> Iterator[Gpu]:
    if not gpu.is_partitioned:
        return
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            uuid, name = nvml.nvmlDeviceGetUUID(part), nvml.nvmlDeviceGetName(part)
            instances = (
                nvml.nvmlDeviceGetGpuInstanceId(part),
                nvml.nvmlDeviceGetComputeInstanceId(part),
            )
        except nvml.NVMLError:  # no device was made there
            continue
        former = f"MIG-{gpu.uuid}/{instances[0]}/{instances[1]}"
        # Its cores are not the GPU's, and the library does not count them.
        yield replace(gpu, name=name, uuid=uuid, cores=None, mig=None, former_uuid=former)


def loaded_driver(proc: Path = PROC) -> str | None:
    """The version of the kernel's driver; None if none is loaded, or its file names none."""
    match = _VERSION.search(content_of(proc / "driver" / "nvidia" / "version"))
    return None if match is None else match[1]


def proc_gpus(proc: Path = PROC) -> tuple[Gpu, ...]:
    """Names and UUIDs by the driver's files, in the order of PCI addresses; empty without a driver."""
    return tuple(
        Gpu(
            index=index,
            bus_id=place,
            name=lines.get("Model") or "unnamed",
            uuid=lines.get("GPU UUID"),
        )
        for index, (place, lines) in enumerate(_information(proc))
    )


def video_bios_versions(proc: Path = PROC) -> tuple[str, ...]:
    """Those that the driver's files name, in the same order."""
    return tuple(lines["Video BIOS"] for _, lines in _information(proc) if "Video BIOS" in lines)


def _information(proc: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The PCI address of each GPU and its lines. What the driver does not know is question marks."""
    for path in sorted((proc / "driver" / "nvidia").glob("gpus/*/information")):
        pairs = (line.partition(":")[::2] for line in content_of(path).splitlines())
        known = {key.strip(): value.strip() for key, value in pairs if "?" not in value}
        yield path.parent.name, {key: value for key, value in known.items() if value}


def shows_gpu(root: Path, environ: Mapping[str, str]) -> bool:
    """Whether anything shows an NVIDIA GPU or its driver, nvidia-smi on PATH too."""
    return (
        (root / "proc" / "driver" / "nvidia").exists()
        or (root / "dev" / "nvidiactl").exists()
        or any((root / "dev").glob("nvidia[0-9]*"))
        or shutil.which(QUERY[0], path=environ.get("PATH", "")) is not None
    )


def is_driver_loaded(root: Path) -> bool:
    """Whether the kernel has NVIDIA's driver, or under WSL that of Windows."""
    return (
        (root / "proc" / "driver" / "nvidia").exists()
        or (root / "dev" / "dxg").exists()
        or any((root / "dev").glob("nvidia[0-9]*"))
    )


def has_pci_gpu(sys: Path) -> bool | None:
    """Whether the PCI bus has an NVIDIA GPU; None if /sys does not show the bus."""
    try:
        places = list((sys / "bus" / "pci" / "devices").iterdir())
    except OSError:
        return None
    return any(
        content_of(place / "class").startswith(_DISPLAY)
        and content_of(place / "vendor").strip() == _NVIDIA
        for place in places
    )


def other_accelerators(dev: Path) -> tuple[str, ...]:
    """What other accelerators have device files here, in words."""
    names = [words for pattern, words in _OTHERS.items() if any(dev.glob(pattern))]
    return tuple(dict.fromkeys(names))


def uses_gpu(proc: Path, pid: int) -> bool | None:
    """Whether a process has a file of the driver open; None if this user may not see its files."""
    place = proc / str(pid) / "fd"
    try:
        names = os.listdir(place)  # noqa: PTH208 - a server has thousands of them
    except OSError:
        return None
    for name in names[:_MOST_FILES]:
        try:
            target = os.readlink(place / name)  # noqa: PTH115
        except OSError:
            continue
        if target.startswith("/dev/nvidia"):
            return True
    return False


def check_gpu_library() -> None:
    """Raise UsageError if NVIDIA's Python library is not installed."""
    try:
        importlib.import_module("pynvml")
    except ImportError as error:
        raise UsageError(
            'released = ["gpu-memory"] needs NVIDIA\'s Python library, which is not installed',
            hint=install_extra("gpu"),
        ) from error


def read_gpu_memory() -> tuple[GpuMemory, ...]:
    """Every GPU of this machine. May take a second, to initialise the driver.

    Raises UsageError as `check_gpu_library` does, and InfraError if the driver does not answer.
    """
    check_gpu_library()
    pynvml: Any = importlib.import_module("pynvml")
    try:
        with _driver(pynvml):
            return tuple(_read(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError as error:
        raise InfraError(
            f"the memory of the GPUs cannot be read: {error}",
            hint='see whether `nvidia-smi` works here, or take "gpu-memory" out of `released`',
        ) from error


@functools.cache
def can_read_gpu_memory() -> bool:
    """Whether there is a GPU whose memory can be read: the library, a driver, and a device.

    Determined once: to initialise the driver may take a second.
    """
    try:
        return bool(read_gpu_memory())
    except CiDoctorError:
        return False


@contextlib.contextmanager
def _driver(pynvml: Any) -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _read(pynvml: Any, index: int) -> GpuMemory:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    try:
        used = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    except pynvml.NVMLError_NotSupported:  # it shares the machine's memory
        return GpuMemory(index=index, used=None)
    processes: list[Any] = []
    # Some drivers do not list processes, as under WSL; the memory in use is what counts.
    with contextlib.suppress(pynvml.NVMLError):
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return GpuMemory(index=index, used=used, holders=tuple(process.pid for process in processes))


# --- which CUDA toolkit would compile here, and its version. Nothing is started ---


_DEFAULT: Final = Path("usr/local/cuda")
_HEADER = re.compile(r"#define\s+CUDA_VERSION\s+(\d+)")
_TEXT = re.compile(r"CUDA Version (\d+(?:\.\d+)+)")
# A script in its place: `exec /usr/local/cuda-13.0/bin/nvcc "$@"`.
_WRAPPED = re.compile(r"^#!.*?(/[^\s\"']+)/bin/nvcc\b", re.DOTALL)
# `Cuda compilation tools, release 12.8, V12.8.93`.
_RELEASE = re.compile(r"release (\d+\.\d+)")


class CudaToolkit(Struct, frozen=True, kw_only=True):
    """A toolkit: the directory above `bin/nvcc`, and its version, None if no file names it."""

    home: Path
    version: str | None

    @property
    def nvcc(self) -> Path:
        """Its compiler, which may be missing."""
        return self.home / "bin" / "nvcc"


def read_toolkit(
    environ: Mapping[str, str], cwd: Path = Path("/"), root: Path = Path("/")
) -> CudaToolkit | None:
    """The toolkit that PyTorch's extensions would use; None without one.

    That is $CUDA_HOME, else $CUDA_PATH, else the one of `nvcc` on PATH, else /usr/local/cuda
    (torch.utils.cpp_extension, `_find_cuda_home`).
    """
    home = _home(environ, cwd, root)
    return None if home is None else CudaToolkit(home=home, version=_version(home))


def nvcc_release(output: str) -> str | None:
    """The release, such as `12.8`, in the output of `nvcc --version`."""
    match = _RELEASE.search(output)
    return None if match is None else match[1]


def _home(environ: Mapping[str, str], cwd: Path, root: Path) -> Path | None:
    named = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
    if named:
        return cwd / named
    nvcc = shutil.which("nvcc", path=environ.get("PATH", ""))
    if nvcc is not None:
        wrapped = _WRAPPED.search(_head(Path(nvcc)))
        if wrapped is not None and Path(wrapped[1], "bin", "nvcc").exists():
            return Path(wrapped[1])
        real = Path(nvcc).resolve().parent.parent
        # A link to ccache leads elsewhere.
        return real if (real / "bin" / "nvcc").exists() else Path(nvcc).absolute().parent.parent
    home = root / _DEFAULT
    return home if home.exists() else None


def _version(home: Path) -> str | None:
    """By version.json, which a toolkit has since 11.1, else by version.txt, else by cuda.h."""
    try:
        versions = json.loads((home / "version.json").read_bytes())
        part = versions.get("cuda") or versions["cuda_nvcc"]
        return str(part["version"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    match = _TEXT.search(content_of(home / "version.txt"))
    if match is not None:
        return match[1]
    match = _HEADER.search(content_of(home / "include" / "cuda.h"))
    if match is None:
        return None
    number = int(match[1])  # 12040 is 12.4 (cuda.h)
    return f"{number // 1000}.{number % 1000 // 10}"


def _head(path: Path) -> str:
    """The first bytes of a program, which may have fifty million."""
    try:
        with path.open("rb") as file:
            return file.read(4096).decode(errors="replace")
    except OSError:
        return ""
