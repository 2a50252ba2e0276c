# SPDX-License-Identifier: Apache-2.0
"""Pure. NVIDIA's Xid numbers: what each means, and whose matter it is.

Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/xid-errors). The
matter is that of its immediate action: RESET_GPU, RESTART_BM, RESTART_VM and CHECK_MECHANICALS are
the hardware's; RESTART_APP is the application's; IGNORE is neither. So are the workflows that NVIDIA
gives for 45, 48 and NVLink, by what they begin with. 43 is an application's, because it lost its work.
"""

from enum import Enum
from typing import Final

from msgspec import Struct


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
