# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: the faults of GPUs (Xids) that the driver wrote into the kernel's log, and their age.

The log is read by /dev/kmsg, else by `dmesg`. A message:
`NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.`
"""

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
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
from ci_doctor.checks.gpu.xid_catalogue import NVLINK5, RECOVERY_CHANGED, Xid, XidMatter, look_up
from ci_doctor.machine.nvidia_smi import Gpu
from ci_doctor.model.finding import Evidence, NextStep, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount, duration
from ci_doctor.system.processes.kernel_words import records

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
