# SPDX-License-Identifier: Apache-2.0
"""Pure. Finds the driver's Xid messages in a kernel log, and how old they are.

A message: `NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.`
"""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.checks.gpu.xid_catalogue import NVLINK5, RECOVERY_CHANGED, Xid, XidMatter, look_up

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


def is_of_driver(line: str) -> bool:
    """Whether the NVIDIA driver wrote this line, for a GPU or for an NVSwitch."""
    return "NVRM" in line or "SXid" in line


def driver_lines(text: str, uptime_s: float | None) -> Iterator[DriverLine]:
    """The NVIDIA driver's records of /dev/kmsg, or its lines of `dmesg`, with their age."""
    for line in text.splitlines():
        if not is_of_driver(line):  # most of a log, which may have megabytes
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
        count = 1 if before is None else before.count + 1
        messages[key] = XidMessage(
            xid=judged(look_up(key[0]), line.text),
            address=address,
            text=line.text[match.start() :],
            age_s=line.age_s,
            count=count,
        )
    return list(messages.values())


class SwitchFault(Struct, frozen=True, kw_only=True):
    """A fatal error of an NVSwitch: its SXid. The others are corrected, or end one program."""

    number: int
    address: str
    text: str
    age_s: float | None


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
    if domain:
        return f"{domain}:{place}"
    return place


def _age(at_s: float, uptime_s: float | None) -> float | None:
    """None for what lies ahead: a container may have an uptime of its own, and the host's log."""
    if uptime_s is None:
        return None
    return past(uptime_s - at_s)


def past(age_s: float) -> float | None:
    """`age_s`, or None if the message lies in the future: the clocks say nothing of its age then."""
    if age_s < -_SKEW_S:
        return None
    return max(0.0, age_s)
