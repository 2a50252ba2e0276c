# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `gpu`."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

GPU_MISSING: Final = Rule(
    id="doctor/gpu-missing",
    severity=Severity.ERROR,
    meaning="The job needs a GPU, and a program that starts here sees none.",
    remedy="Run the job on an agent with a GPU. In a container, see that it was started with "
    "`--gpus all`, or in Kubernetes with the limit `nvidia.com/gpu`.",
)
GPU_HIDDEN: Final = Rule(
    id="doctor/gpu-hidden",
    severity=Severity.WARNING,
    meaning="CUDA_VISIBLE_DEVICES names a GPU that does not exist. CUDA stops at the first such "
    "entry, without an error: a program sees fewer GPUs than the list has.",
    remedy="Name only GPUs that `nvidia-smi -L` lists, or unset the variable.",
)
GPUS_TOO_FEW: Final = Rule(
    id="doctor/gpus-too-few",
    severity=Severity.ERROR,
    meaning="A configured service is started on more GPUs than a program sees here.",
    remedy="Run the job on an agent with more GPUs, or lower `--tensor-parallel-size`.",
)
DRIVER_FAILS: Final = Rule(
    id="doctor/gpu-driver-fails",
    severity=Severity.ERROR,
    meaning="nvidia-smi reports that it cannot use the NVIDIA driver. No program can use the GPU.",
    remedy="Restart the machine if the driver was updated: the kernel's module and the library "
    "must have one version. `dmesg | grep NVRM` has the driver's own words.",
)
DRIVER_WARNS: Final = Rule(
    id="doctor/gpu-driver-warns",
    severity=Severity.WARNING,
    meaning="nvidia-smi answers, and reports that something is wrong with a GPU.",
    remedy="Its words are the evidence. Exit code 14 means a damaged InfoROM, 8 a power cable.",
)
GPU_LOST: Final = Rule(
    id="doctor/gpu-lost",
    severity=Severity.ERROR,
    meaning="The driver lists a GPU and cannot reach it. Every program that counts on it fails.",
    remedy="Restart the machine. If it happens again, the GPU or its slot is broken.",
)
GPU_RESET_NEEDED: Final = Rule(
    id="doctor/gpu-reset-needed",
    severity=Severity.ERROR,
    meaning="The driver says that a GPU must be reset, or the machine restarted, before it can be "
    "relied on.",
    remedy="End what uses the GPU, then `nvidia-smi --gpu-reset -i INDEX`, or restart the machine.",
)
GPU_MEMORY_SHORT: Final = Rule(
    id="doctor/gpu-memory-short",
    severity=Severity.ERROR,
    meaning="A GPU has less free memory than a configured service takes at its start. vLLM ends "
    "with `Free memory on device … is less than desired GPU memory utilization`.",
    remedy="End what holds the memory, or lower `--gpu-memory-utilization`.",
)
GPU_MEMORY_HELD: Final = Rule(
    id="doctor/gpu-memory-held",
    severity=Severity.WARNING,
    meaning="Another process holds memory of a GPU that this job sees. Results that depend on free "
    "memory (batch sizes, the size of a cache) differ from those of an empty GPU.",
    remedy="See who it is, and whether it is left over from an earlier job.",
)
GPU_XID: Final = Rule(
    id="doctor/gpu-xid",
    severity=Severity.WARNING,
    meaning="The driver has reported a fault of a GPU (an Xid) in the kernel's log. Whether it is "
    "the hardware's or a program's depends on the number.",
    remedy="Look the number up: https://docs.nvidia.com/deploy/xid-errors",
)
GPU_MEMORY_ERRORS: Final = Rule(
    id="doctor/gpu-memory-errors",
    severity=Severity.WARNING,
    meaning="ECC found errors in a GPU's memory that it could not correct. A program that used the "
    "memory was ended. It is an error if the GPU has no spare memory left.",
    remedy="Reset the GPU when nothing uses it, so that bad rows are replaced: "
    "`nvidia-smi --gpu-reset -i INDEX`.",
)
GPU_THROTTLED: Final = Rule(
    id="doctor/gpu-throttled",
    severity=Severity.WARNING,
    meaning="A GPU has lowered its clocks because it is too hot, or because its power supply "
    "demands it. Timings of this job will be slow.",
    remedy="See `nvidia-smi -q -d PERFORMANCE,TEMPERATURE`. Measure no speed here.",
)
GPU_PERSISTENCE_OFF: Final = Rule(
    id="doctor/gpu-persistence-off",
    severity=Severity.NOTE,
    meaning="Without persistence mode the driver lets go of a GPU when the last program ends. The "
    "next start takes seconds longer, and settings such as locked clocks are lost.",
    remedy="Let nvidia-persistenced run on the machine, or `nvidia-smi -pm 1` as root.",
)
MIG_EMPTY: Final = Rule(
    id="doctor/mig-empty",
    severity=Severity.WARNING,
    meaning="MIG is on for a GPU and no part of it was made, so CUDA sees no device there.",
    remedy="Make parts (`nvidia-smi mig -cgi … -C`), or turn MIG off: `nvidia-smi -mig 0`.",
)
MIG_PENDING: Final = Rule(
    id="doctor/mig-pending",
    severity=Severity.WARNING,
    meaning="The MIG mode of a GPU was changed, and the change waits for a reset of the GPU.",
    remedy="Reset the GPU when nothing uses it: `nvidia-smi --gpu-reset -i INDEX`.",
)
MIG_ONE_PART: Final = Rule(
    id="doctor/mig-one-part",
    severity=Severity.NOTE,
    meaning="MIG is on, and a program uses one part of a GPU only: CUDA sees one MIG device.",
    remedy="Name the part in CUDA_VISIBLE_DEVICES, so that it is always the same.",
)
MIG_PART_UNKNOWN: Final = Rule(
    id="doctor/mig-part-unknown",
    severity=Severity.ERROR,
    meaning="CUDA_VISIBLE_DEVICES names a part of a GPU that does not exist. A part has another "
    "UUID each time it is made, so the name may be that of an earlier one.",
    remedy="Take the UUID that `nvidia-smi -L` prints.",
)
GPU_EXCLUSIVE: Final = Rule(
    id="doctor/gpu-exclusive",
    severity=Severity.WARNING,
    meaning="The compute mode of a GPU lets only one process use it, or none.",
    remedy="`nvidia-smi -i INDEX -c DEFAULT` as root lets several use it.",
)
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

RULES: Final[tuple[Rule, ...]] = (
    GPU_MISSING,
    GPU_HIDDEN,
    GPUS_TOO_FEW,
    DRIVER_FAILS,
    DRIVER_WARNS,
    GPU_LOST,
    GPU_RESET_NEEDED,
    GPU_MEMORY_SHORT,
    GPU_MEMORY_HELD,
    GPU_XID,
    GPU_MEMORY_ERRORS,
    GPU_THROTTLED,
    GPU_PERSISTENCE_OFF,
    MIG_EMPTY,
    MIG_PENDING,
    MIG_ONE_PART,
    MIG_PART_UNKNOWN,
    GPU_EXCLUSIVE,
    DRIVER_TOO_OLD,
    TOOLKIT_DIFFERS,
    CUDA_MAJORS_MIXED,
    CUDA_LIBRARY_TWICE,
)
