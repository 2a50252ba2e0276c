# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.checks.gpu.xid_catalogue import XidMatter
from ci_doctor.checks.gpu.xid_lines import driver_lines, pci_address, xid_messages

FELL_OFF = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
PAGE_FAULT = "NVRM: Xid (PCI:0000:3c:00): 31, pid=4242, name=python3, Ch 00000008, intr 10000000."


def test_records_of_kmsg_have_an_age() -> None:
    text = f"6,1,5000000,-;usb 1-1: new device\n3,2,10000000,-;{FELL_OFF}\n SUBSYSTEM=pci\n"

    (line,) = driver_lines(text, 70.0)

    assert (line.text, line.age_s) == (FELL_OFF, 60.0)


@pytest.mark.parametrize(
    "head", ["[   10.000000] ", "kern  :err   : [   10.000000] ", "[   10.000000]"]
)
def test_lines_of_dmesg_have_an_age(head: str) -> None:
    (line,) = driver_lines(f"{head}{FELL_OFF}\n", 70.0)

    assert (line.text, line.age_s) == (FELL_OFF, 60.0)


def test_lines_without_a_time_have_no_age() -> None:
    (line,) = driver_lines(f"{FELL_OFF}\n", 70.0)

    assert line.age_s is None


def test_an_xid_is_counted_by_number_and_gpu_and_the_latest_is_kept() -> None:
    text = f"[1.0] {PAGE_FAULT}\n[5.0] {FELL_OFF}\n[9.0] {PAGE_FAULT}\n"

    fault, fell = xid_messages(driver_lines(text, 10.0))

    assert (fault.xid.number, fault.address, fault.count, fault.age_s) == (31, "3c:00", 2, 1.0)
    assert (fell.xid.number, fell.xid.matter) == (79, XidMatter.HARDWARE)


def test_the_form_of_old_drivers_is_read_too() -> None:
    (message,) = xid_messages(driver_lines("[1.0] NVRM: Xid (0000:01:00): 13, 0005 0000\n", 2.0))

    assert (message.xid.number, message.address) == (13, "01:00")


def test_a_number_that_nobody_knows_is_told_as_such() -> None:
    (message,) = xid_messages(driver_lines("NVRM: Xid (PCI:0000:01:00): 999, x\n", None))

    assert message.xid.matter is XidMatter.UNKNOWN


def test_other_lines_of_the_driver_are_no_xids() -> None:
    text = "[1.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.65.06\n"

    assert xid_messages(driver_lines(text, 2.0)) == []


@pytest.mark.parametrize(
    ("text", "address"),
    [("0000:3b:00", "3b:00"), ("00000000:3B:00.0", "3b:00"), ("00000001:3B:00.0", "1:3b:00")],
)
def test_an_address_is_the_same_in_the_log_and_in_nvidia_smi(text: str, address: str) -> None:
    assert pci_address(text) == address


def test_a_message_from_the_future_has_no_age() -> None:
    """A container's own uptime is less than the host's, whose log it reads."""
    (line,) = driver_lines(f"3,2,99000000000,-;{FELL_OFF}\n", 60.0)

    assert line.age_s is None


@pytest.mark.parametrize(
    ("words", "matter"),
    [
        (
            "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            "HARDWARE",
        ),
        ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "NOTHING"),
        ("145, RLW_REMAP Nonfatal XC0 i0 Link 05", "NOTHING"),
        ("145, RLW_CTRL Fatal XC0 i0 Link 05", "HARDWARE"),
        ("149, NETIR_LINK_EVT Fatal XC0 i0 Link 05", "HARDWARE"),
        ("75, pid=1, name=python3, Ch 00000008", "APPLICATION"),
    ],
)
def test_words_decide_where_a_number_does_not(words: str, matter: str) -> None:
    (line,) = driver_lines(f"NVRM: Xid (PCI:0000:3b:00): {words}\n", None)

    assert [each.xid.matter for each in xid_messages([line])] == [XidMatter[matter]]


def test_a_number_of_a_thousand_digits_is_no_xid() -> None:
    lines = driver_lines(f"NVRM: Xid (PCI:0000:3b:00): {'9' * 5000}, words\n", None)

    assert xid_messages(lines) == []
