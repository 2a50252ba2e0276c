# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `machine`."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

SHARED_MEMORY_SMALL: Final = Rule(
    id="doctor/shared-memory-small",
    severity=Severity.ERROR,
    meaning="/dev/shm has less room than NCCL and the worker processes of a server need. A "
    "container has 64 MiB of it by default. Workers then die with a bus error.",
    remedy="Start the container with `--ipc=host` or `--shm-size=16g`. In Kubernetes, mount an "
    "`emptyDir` with `medium: Memory` at /dev/shm.",
)
SHARED_MEMORY_UNUSABLE: Final = Rule(
    id="doctor/shared-memory-unusable",
    severity=Severity.ERROR,
    meaning="/dev/shm is missing, or this user may not write there. POSIX shared memory, semaphores "
    "of multiprocessing and NCCL need it.",
    remedy="Mount a tmpfs there: `mount -t tmpfs -o mode=1777 tmpfs /dev/shm`, or start the container "
    "with `--ipc=host`.",
)
SHARED_MEMORY_ON_DISK: Final = Rule(
    id="doctor/shared-memory-on-disk",
    severity=Severity.WARNING,
    meaning="/dev/shm is no tmpfs, so what processes share there goes through a disk.",
    remedy="Mount a tmpfs there: `mount -t tmpfs -o mode=1777 tmpfs /dev/shm`.",
)
DISK_FULL: Final = Rule(
    id="doctor/disk-full",
    severity=Severity.ERROR,
    meaning="A disk with a temporary directory, a cache or the checkout has less free than "
    "`min_free` of `[doctor]`. An installation, a download or a compilation then fails halfway "
    "with ENOSPC.",
    remedy="Remove what is no longer needed, or put the cache on another disk by its variable.",
)
INODES_LOW: Final = Rule(
    id="doctor/inodes-low",
    severity=Severity.ERROR,
    meaning="A disk has hardly any inodes left: no file can be made there, however many bytes are "
    "free. The message is `No space left on device` all the same.",
    remedy="Remove directories with many small files, such as old virtual environments and caches.",
)
NOT_WRITABLE: Final = Rule(
    id="doctor/directory-not-writable",
    severity=Severity.WARNING,
    meaning="This user may not write to a directory that a job writes to, or it lies on a read-only "
    "mount. For temporary files, reports and `caches` of `[doctor]` it is an error; for compiled "
    "kernels, too, if `--for` names a server.",
    remedy="Name another directory by its variable, or give it to this user.",
)
TMPDIR_MISSING: Final = Rule(
    id="doctor/tmpdir-missing",
    severity=Severity.WARNING,
    meaning="TMPDIR names a directory that does not exist. mktemp(1) and most programs fail; Python "
    "takes /tmp without a word.",
    remedy="Make the directory, or unset the variable.",
)
CACHE_ON_NETWORK: Final = Rule(
    id="doctor/cache-on-network-disk",
    severity=Severity.NOTE,
    meaning="A cache of compiled kernels, or the temporary directory, lies on a network file system. "
    "Locks and renames behave differently there, and several jobs at once damage such caches.",
    remedy="Put these caches on a local disk by their variables.",
)
MEMORY_LOW: Final = Rule(
    id="doctor/memory-low",
    severity=Severity.WARNING,
    meaning="The machine has little memory left for new processes, so the kernel may soon kill one.",
    remedy="See what holds it, and end what is left over from earlier jobs.",
)
CGROUP_MEMORY_LOW: Final = Rule(
    id="doctor/cgroup-memory-low",
    severity=Severity.WARNING,
    meaning="The cgroup of this job (a container, a pod) has little of its memory limit left. The "
    "kernel kills a process of it at the limit, however much the machine has.",
    remedy="Raise the memory limit of the step or container, or end what runs in it already.",
)
CGROUP_MEMORY_THROTTLED: Final = Rule(
    id="doctor/cgroup-memory-throttled",
    severity=Severity.WARNING,
    meaning="The cgroup of this job is at its `memory.high`: the kernel slows each allocation down, "
    "and nothing dies.",
    remedy="Raise `memory.high` of the cgroup, or end what runs in it already.",
)
EARLIER_OOM_KILLS: Final = Rule(
    id="doctor/earlier-oom-kills",
    severity=Severity.NOTE,
    meaning="The kernel has killed processes of this cgroup for lack of memory before.",
    remedy="Raise the memory limit of the step or container if a process ended by SIGKILL without "
    "a message.",
)
CPU_QUOTA_BELOW_COUNT: Final = Rule(
    id="doctor/cpu-quota-below-count",
    severity=Severity.WARNING,
    meaning="The cgroup's CPU quota is far below the number of CPUs that programs see. Libraries "
    "start a thread per CPU, and the kernel then stops all of them for most of the time.",
    remedy="Set OMP_NUM_THREADS to the quota, or give the container a cpuset in place of a quota.",
)
FEW_CPUS: Final = Rule(
    id="doctor/few-cpus",
    severity=Severity.WARNING,
    meaning="This job may use less than two CPUs: a server's API process and its engine take turns.",
    remedy="Raise the CPU limit of the step or container.",
)
PROCESSES_LOW: Final = Rule(
    id="doctor/processes-low",
    severity=Severity.WARNING,
    meaning="Few processes and threads can still be started here: a limit on their number is near. "
    "A server with workers has some hundreds of threads, and compilers beside it. Messages are "
    "`Resource temporarily unavailable` and `can't start new thread`.",
    remedy="Raise the limit (`--pids-limit` of the container), or end what runs there already.",
)
ULIMIT_LOW: Final = Rule(
    id="doctor/ulimit-low",
    severity=Severity.WARNING,
    meaning="A resource limit of this process (ulimit) is lower than a server under load needs.",
    remedy="Raise it in the shell before the job, or for the container by `--ulimit`.",
)
BUSY: Final = Rule(
    id="doctor/machine-busy",
    severity=Severity.NOTE,
    meaning="Other work takes the CPUs of this machine: what is timed here is slower than usual.",
    remedy="Do not compare timings made here with those of an idle machine.",
)
PRESSURE: Final = Rule(
    id="doctor/memory-pressure",
    severity=Severity.NOTE,
    meaning="Processes of this machine wait for memory (the kernel's pressure stall information): it "
    "swaps, or reads evicted pages again.",
    remedy="See what holds the memory, and end what is left over from earlier jobs.",
)
CLOCK_BEHIND: Final = Rule(
    id="doctor/clock-behind",
    severity=Severity.ERROR,
    meaning="The clock is earlier than the commit that is checked out, or than the times of files: "
    "it is wrong here, or was wrong where they were made. Certificates may not be valid yet, and "
    "tools such as make skip files that look older than their products.",
    remedy="Set the clock: `timedatectl set-ntp true`, on the host if this is a container.",
)
CLOCK_INEXACT: Final = Rule(
    id="doctor/clock-inexact",
    severity=Severity.WARNING,
    meaning="The program that keeps the clock says that it is off by more than a second (the "
    "estimated error of adjtimex(2)). Times of this machine and of others cannot be compared.",
    remedy="See why: `chronyc tracking` or `timedatectl timesync-status`, on the host if this is a "
    "container.",
)
LOCALE_MISSING: Final = Rule(
    id="doctor/locale-missing",
    severity=Severity.WARNING,
    meaning="A locale is named that is not installed. `locale.setlocale(LC_ALL, '')` raises then, "
    "and programs such as perl and bash warn at each start.",
    remedy="export LC_ALL=C.UTF-8",
)
LOCALE_NOT_UTF8: Final = Rule(
    id="doctor/locale-not-utf8",
    severity=Severity.WARNING,
    meaning="Python reads and writes text in another encoding than UTF-8 here, if a program does not "
    "name one. Prompts and answers with other characters fail, or change.",
    remedy="export LC_ALL=C.UTF-8",
)
UMASK_ODD: Final = Rule(
    id="doctor/umask-odd",
    severity=Severity.WARNING,
    meaning="The umask takes permissions from the owner of new files, so a job cannot read or enter "
    "what it made itself.",
    remedy="umask 022",
)
ENTROPY_MISSING: Final = Rule(
    id="doctor/entropy-missing",
    severity=Severity.ERROR,
    meaning="The kernel's random number generator is not ready: whatever asks for a key or a UUID "
    "blocks, without a message.",
    remedy="Give the virtual machine a virtio-rng device.",
)
STRICT_OVERCOMMIT: Final = Rule(
    id="doctor/strict-overcommit",
    severity=Severity.WARNING,
    meaning="The kernel counts reserved memory as used (vm.overcommit_memory is 2). CUDA and torch "
    "reserve far more than they use, and fail with memory free.",
    remedy="sysctl vm.overcommit_memory=0",
)
KERNEL_SETTING_LOW: Final = Rule(
    id="doctor/kernel-setting-low",
    severity=Severity.WARNING,
    meaning="A limit of the kernel is below its default, and a server with large models or many "
    "files reaches it.",
    remedy="Set it to its default on the host, as root: `sysctl NAME=VALUE`.",
)
PTRACE_FORBIDDEN: Final = Rule(
    id="doctor/ptrace-forbidden",
    severity=Severity.NOTE,
    meaning="No process may look into another one (kernel.yama.ptrace_scope): py-spy and gdb cannot "
    "say where a server hangs.",
    remedy="sysctl kernel.yama.ptrace_scope=1",
)

RULES: Final[tuple[Rule, ...]] = (
    SHARED_MEMORY_SMALL,
    SHARED_MEMORY_UNUSABLE,
    SHARED_MEMORY_ON_DISK,
    DISK_FULL,
    INODES_LOW,
    NOT_WRITABLE,
    TMPDIR_MISSING,
    CACHE_ON_NETWORK,
    MEMORY_LOW,
    CGROUP_MEMORY_LOW,
    CGROUP_MEMORY_THROTTLED,
    EARLIER_OOM_KILLS,
    CPU_QUOTA_BELOW_COUNT,
    FEW_CPUS,
    PROCESSES_LOW,
    ULIMIT_LOW,
    BUSY,
    PRESSURE,
    CLOCK_BEHIND,
    CLOCK_INEXACT,
    LOCALE_MISSING,
    LOCALE_NOT_UTF8,
    UMASK_ODD,
    ENTROPY_MISSING,
    STRICT_OVERCOMMIT,
    KERNEL_SETTING_LOW,
    PTRACE_FORBIDDEN,
)
