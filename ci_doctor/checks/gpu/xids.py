# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: the faults of GPUs (Xids) that the driver wrote into the kernel's log, and their age.

The log is read by /dev/kmsg, else by `dmesg`. A message:
`NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.`
"""

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
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
from ci_doctor.machine.nvidia_smi import Gpu
from ci_doctor.model.outcome import Evidence, NextStep, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount, duration
from ci_doctor.system.processes.kernel_words import records

# NVIDIA's Xid numbers: what each means, and whose matter it is.
#
# Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/xid-errors). The
# matter is that of its immediate action: RESET_GPU, RESTART_BM, RESTART_VM and CHECK_MECHANICALS are
# the hardware's; RESTART_APP is the application's; IGNORE is neither. So are the workflows that NVIDIA
# gives for 45, 48 and NVLink, by what they begin with. 43 is an application's, because it lost its work.


class XidMatter(Enum):
    """Who has to act on an Xid."""

    HARDWARE = "the GPU must be reset, or the machine restarted"
    APPLICATION = "the program on the GPU was ended, and the GPU goes on"
    NOTHING = "nothing has to be done"
    UNKNOWN = "ci-doctor does not know this number"


class Xid(Struct, frozen=True, kw_only=True):
    """One number. `meaning` is a clause."""

    number: int
    matter: XidMatter
    meaning: str


def _hardware(number: int, meaning: str) -> Xid:
    return Xid(number=number, matter=XidMatter.HARDWARE, meaning=meaning)


def _application(number: int, meaning: str) -> Xid:
    return Xid(number=number, matter=XidMatter.APPLICATION, meaning=meaning)


def _nothing(number: int, meaning: str) -> Xid:
    return Xid(number=number, matter=XidMatter.NOTHING, meaning=meaning)


# Numbers of one meaning each: further copy engines, and engines for video and images.
_COPY_ENGINES: Final = (70, 71, 72, 75, 76, 77, 85, *range(126, 136))
_VIDEO_ENGINES: Final = (60, 82, 83, 84, 86, 88, 89, *range(96, 106), 139)
# Their messages say whether they were fatal.
NVLINK5: Final = frozenset(range(144, 151))
# Its message says which recovery is wanted.
RECOVERY_CHANGED: Final = 154

XIDS: Final = (
    _application(8, "the GPU stopped processing"),
    _application(11, "invalid or corrupted push buffer"),
    _application(13, "exception in the graphics engine, mostly an illegal access of a kernel"),
    _application(25, "invalid or illegal push buffer"),
    _application(31, "page fault in GPU memory: a kernel used an illegal address"),
    _application(32, "invalid or corrupted push buffer (DMA)"),
    _nothing(37, "driver firmware error"),
    _nothing(38, "driver firmware error"),
    _application(39, "exception in a copy engine"),
    _application(40, "exception in a copy engine"),
    _application(41, "exception in a copy engine"),
    _application(43, "a program had a fault, and its channel was reset"),
    _nothing(44, "fault during a context switch"),
    _application(45, "work was removed because its program ended or was killed"),
    _hardware(46, "the GPU stopped processing"),
    _hardware(48, "double bit ECC error: data in GPU memory was lost"),
    _hardware(54, "the auxiliary power of the GPU is not connected"),
    _hardware(62, "the GPU's power management has halted"),
    _nothing(63, "a bad row of memory is going to be replaced"),
    _hardware(64, "a bad row of memory could not be recorded for replacement"),
    _nothing(66, "illegal access by the driver"),
    _nothing(67, "illegal access by the driver"),
    _application(68, "exception in the video processor"),
    _application(69, "error of the graphics engine's class"),
    _hardware(74, "error of an NVLink"),
    _hardware(79, "the GPU has fallen off the bus"),
    _application(80, "corrupted data sent to the GPU"),
    _nothing(92, "many single bit ECC errors, corrected"),
    _nothing(93, "the InfoROM was written too often"),
    _application(94, "an ECC error that was contained: one program lost data"),
    _hardware(95, "an ECC error that was not contained: every program may have lost data"),
    _nothing(106, "test message"),
    _nothing(107, "test message"),
    _nothing(108, "error of a remote NVLink translation"),
    _hardware(109, "context switch timed out"),
    _hardware(110, "security fault"),
    _hardware(119, "the GPU's system processor (GSP) does not answer"),
    _hardware(120, "error of the GPU's system processor (GSP)"),
    _nothing(121, "corrected error of the link to the CPU (C2C)"),
    _hardware(136, "an NVLink could not be trained"),
    _nothing(137, "illegal access over an NVLink"),
    _hardware(140, "an uncorrectable ECC error has escaped"),
    _nothing(141, "error of the fast path"),
    _hardware(143, "the GPU could not be initialised"),
    _hardware(144, "error of an NVLink (SAW)"),
    _hardware(145, "error of an NVLink (RLW)"),
    _hardware(146, "error of an NVLink (TLW)"),
    _hardware(147, "error of an NVLink (TREX)"),
    _hardware(148, "error of an NVLink (power control)"),
    _hardware(149, "error of an NVLink (NETIR)"),
    _hardware(150, "error of an NVLink (MSE)"),
    _hardware(151, "error of a key rotation"),
    _nothing(RECOVERY_CHANGED, "the driver wants another recovery of the GPU than before"),
    _hardware(155, "error of an NVLink, defined by software"),
    _hardware(156, "a resource of the GPU was retired"),
    _nothing(152, "error of a deep learning accelerator's memory"),
    _nothing(153, "timeout of a deep learning accelerator"),
    _nothing(157, "a resource of the GPU could not be retired"),
    _hardware(158, "fatal timeout of the GPU"),
    _nothing(160, "a channel of the memory was retired"),
    _nothing(161, "a channel of the memory could not be retired"),
    *(_application(number, "exception in a copy engine") for number in _COPY_ENGINES),
    *(_application(number, "exception in a video engine") for number in _VIDEO_ENGINES),
)
_BY_NUMBER: Final = {xid.number: xid for xid in XIDS}


def look_up(number: int) -> Xid:
    """What `number` means."""
    known = _BY_NUMBER.get(number)
    if known is not None:
        return known
    return Xid(
        number=number, matter=XidMatter.UNKNOWN, meaning="a number that ci-doctor does not know"
    )


GPU_XID: Final = Rule(
    id="doctor/gpu-xid",
    severity=Severity.WARNING,
    meaning="The driver has reported a fault of a GPU (an Xid) in the kernel's log. Whether it is "
    "the hardware's or a program's depends on the number.",
    remedy="Look the number up: https://docs.nvidia.com/deploy/xid-errors",
)

# What is older tells of a job long gone; the checks of the driver and of ECC show what has stayed.
RECENT_S: Final = 24 * 3600.0
_MOST: Final = 8
_DAY_S: Final = 86400.0
_FELL_OFF: Final = 79
_CONTAINED: Final = 94
# Seconds by which two clocks of one machine may differ.
_SKEW_S = 60.0
# An NVLink 5 says by a word whether an error (144 to 150) was fatal.
_NONFATAL = re.compile(r"\bNon-?fatal\b", re.IGNORECASE)
# `GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)`.
_RECOVERY = re.compile(r"recovery action changed from .* to \S+ \((?!None)")
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\): (\d{1,6})(?:, (.*))?$")
# `level,sequence,microseconds since boot,flags;text` (Linux, Documentation/ABI/testing/dev-kmsg).
_RECORD = re.compile(r"\d+,\d+,(\d+),[^;]*;(.*)")
# `[12345.678901] text`, as dmesg prints it; with `-x` and the like something stands before it.
_STAMPED = re.compile(r"[^\[]*\[\s*(\d+\.\d+)\]\s?(.*)")
# `nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 30 sourcetrack timeout error`.
_FATAL_SWITCH = re.compile(r"SXid \(PCI:([0-9A-Fa-f:.]+)\): (\d{1,6}), Fatal\b.*")


class DriverLine(Struct, frozen=True, kw_only=True):
    """A message of the kernel; `age_s` is seconds before now, None if unknown."""

    text: str
    age_s: float | None


class XidMessage(Struct, frozen=True, kw_only=True):
    """An Xid of one GPU, `count` times; `age_s` and `text` are those of the latest."""

    xid: Xid
    address: str
    text: str
    age_s: float | None
    count: int = 1


class SwitchFault(Struct, frozen=True, kw_only=True):
    """A fatal error of an NVSwitch: its SXid. The others are corrected, or end one program."""

    number: int
    address: str
    text: str
    age_s: float | None


@check(
    "gpu/xids",
    title="faults of GPUs in the kernel's log (Xid)",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
)
def xids(context: CheckContext) -> Findings:
    """The latest Xids, and the fatal faults of NVSwitches."""
    lines = read_kernel_log(context)
    messages = xid_messages(lines)
    gpus: Sequence[Gpu] = ()
    if messages:
        try:
            gpus = driver_report(context).gpus
        except UndeterminedError:  # the Xid may be the cause of that
            gpus = ()
    for message in messages[-_MOST:]:
        yield _problem(message, gpus)
    for fault in switch_faults(lines)[-_MOST:]:
        # A warning at most: which GPUs need this switch is not known here.
        is_old = fault.age_s is not None and fault.age_s > RECENT_S
        yield problem(
            GPU_XID,
            f"fatal SXid {fault.number} of the NVSwitch at {fault.address}, {_ago(fault.age_s)}",
            severity=Severity.NOTE if is_old else Severity.WARNING,
            evidence=(Evidence(file="the kernel's log", excerpt=fault.text),),
        )
    if not messages:
        return "the kernel's log has no Xid"
    total = sum(message.count for message in messages)
    return CheckResult(
        summary=f"the kernel's log has {amount(total, 'Xid')}", figures={"xids": total}
    )


def read_kernel_log(context: CheckContext) -> tuple[DriverLine, ...]:
    """The NVIDIA driver's lines that the kernel's buffer still has, the oldest first.

    Raises UndeterminedError with the reason if nothing lets this user read it, or it is empty.
    """
    uptime_s = _uptime_s(context.proc)
    # Kubernetes within a container puts /dev/null in its place: empty is no log without a fault.
    reason = f"{context.dev}/kmsg is empty"
    try:
        log = records(context.dev / "kmsg")
        if log:
            return tuple(driver_lines(log, uptime_s))
    except OSError as error:
        reason = f"{context.dev}/kmsg: {error.strerror}"
    if shutil.which("dmesg", path=context.environ.get("PATH", "")) is None:
        raise UndeterminedError(f"the kernel's log cannot be read ({reason}; no `dmesg` on PATH)")
    ran = context.run(("dmesg",))
    if ran.exit_code != 0:
        raise UndeterminedError(f"the kernel's log cannot be read ({reason}; {ran.last_words})")
    if not ran.stdout.strip():
        raise UndeterminedError(f"the kernel's log is empty ({reason}; `dmesg` prints nothing)")
    return tuple(driver_lines(ran.stdout, uptime_s))


def _uptime_s(proc: Path) -> float | None:
    try:
        return float((proc / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def driver_lines(text: str, uptime_s: float | None) -> Iterator[DriverLine]:
    """The NVIDIA driver's records of /dev/kmsg, or its lines of `dmesg`, with their age."""
    for line in text.splitlines():
        if "NVRM" not in line and "SXid" not in line:  # most of a log, which may have megabytes
            continue
        record = _RECORD.match(line)
        if record is not None:
            yield DriverLine(text=record[2], age_s=_age(int(record[1]) / 1e6, uptime_s))
            continue
        stamped = _STAMPED.match(line)
        if stamped is not None:
            yield DriverLine(text=stamped[2], age_s=_age(float(stamped[1]), uptime_s))
        else:
            yield DriverLine(text=line, age_s=None)


def xid_messages(lines: Iterable[DriverLine]) -> list[XidMessage]:
    """The Xids, one message for each number and GPU, in the order of their first message."""
    messages: dict[tuple[int, str], XidMessage] = {}
    for line in lines:
        match = _XID.search(line.text)
        if match is None:
            continue
        address = pci_address(match[1])
        key = (int(match[2]), address)
        before = messages.get(key)
        messages[key] = XidMessage(
            xid=judged(look_up(key[0]), line.text),
            address=address,
            text=line.text[match.start() :],
            age_s=line.age_s,
            count=1 if before is None else before.count + 1,
        )
    return list(messages.values())


def switch_faults(lines: Iterable[DriverLine]) -> list[SwitchFault]:
    """The fatal SXids, the latest of each number and switch."""
    faults: dict[tuple[int, str], SwitchFault] = {}
    for line in lines:
        match = _FATAL_SWITCH.search(line.text)
        if match is None:
            continue
        address = pci_address(match[1])
        key = (int(match[2]), address)
        faults[key] = SwitchFault(number=key[0], address=address, text=match[0], age_s=line.age_s)
    return list(faults.values())


def judged(xid: Xid, text: str) -> Xid:
    """`xid` with the matter that the words of its message give it, where they decide."""
    if xid.number in NVLINK5 and _NONFATAL.search(text):
        return replace(xid, matter=XidMatter.NOTHING)
    if xid.number == RECOVERY_CHANGED and _RECOVERY.search(text):
        return replace(xid, matter=XidMatter.HARDWARE)
    return xid


def pci_address(text: str) -> str:
    """`00000000:3B:00.0` and `0000:3b:00` as `3b:00`; with the domain if it is another than 0."""
    words = text.lower().partition(".")[0].split(":")
    domain = words[0].lstrip("0") if len(words) > 2 else ""
    place = ":".join(words[-2:])
    return f"{domain}:{place}" if domain else place


def _age(at_s: float, uptime_s: float | None) -> float | None:
    """None for what lies ahead: a container may have an uptime of its own, and the host's log."""
    if uptime_s is None or uptime_s - at_s < -_SKEW_S:
        return None
    return max(0.0, uptime_s - at_s)


def _problem(message: XidMessage, gpus: Sequence[Gpu]) -> Problem:
    gpu = next((each for each in gpus if pci_address(each.bus_id) == message.address), None)
    severity = severity_of(message, gpu, is_told=bool(gpus))
    times = "" if message.count == 1 else f", {message.count} times"
    where = gpu.label if gpu is not None else f"the GPU at {message.address}"
    return problem(
        GPU_XID,
        f"Xid {message.xid.number} of {where}{times}, {_ago(message.age_s)}: {message.xid.meaning}",
        severity=severity,
        evidence=(Evidence(file="the kernel's log", excerpt=message.text),),
        remedy=_remedy(message, gpu, severity),
    )


def severity_of(message: XidMessage, gpu: Gpu | None, *, is_told: bool) -> Severity:
    """How much `message` says of this job. `is_told`: the driver lists GPUs, `gpu` maybe not.

    An old one is a note. A recent one of the hardware is an error, unless the driver says that the
    GPU needs no recovery (now), or the GPU is another job's.
    """
    age_s = message.age_s
    if message.xid.matter is XidMatter.NOTHING or (age_s is not None and age_s > RECENT_S):
        return Severity.NOTE
    if gpu is None and is_told and message.xid.number != _FELL_OFF:
        return Severity.NOTE
    if message.xid.matter is not XidMatter.HARDWARE or age_s is None:
        return Severity.WARNING
    if gpu is None:
        return Severity.WARNING if is_told else Severity.ERROR
    if gpu.recovery == "None" and gpu.lost is None:
        return Severity.WARNING
    return Severity.ERROR


def _ago(age_s: float | None) -> str:
    if age_s is None:
        return "at an unknown time"
    days = age_s / _DAY_S
    return f"{days:.0f} days ago" if days >= 2 else f"{duration(age_s)} ago"


def _remedy(message: XidMessage, gpu: Gpu | None, severity: Severity) -> NextStep | None:
    if severity is Severity.NOTE or message.xid.matter is XidMatter.UNKNOWN:
        return None
    if message.xid.number == _CONTAINED:
        return "The program that lost data was ended. `gpu/memory-errors` says what is pending."
    if message.xid.matter is XidMatter.APPLICATION:
        return (
            "A program's fault, mostly: see what ran then. Again and again, it is the hardware's."
        )
    if gpu is not None and message.xid.number != _FELL_OFF and "Reboot" not in message.text:
        return ShellCommand(f"sudo nvidia-smi --gpu-reset -i {gpu.index}")
    return "Restart the machine."
