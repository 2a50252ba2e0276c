# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus, UndeterminedError
from ci_doctor.checks.gpu.xids import (
    XidMatter,
    driver_lines,
    pci_address,
    read_kernel_log,
    xid_messages,
    xids,
)
from ci_doctor.checks.running import run_checks
from ci_doctor.model.outcome import Severity
from tests.support.checks import check_context
from tests.support.gpus import machine, program, smi_gpu, smi_log

UP_S = 1_000_000
DAY_S = 86400


def checked(tmp_path: Path, number: int, *, age_s: int, gpu: str | None) -> CheckResult:
    """An Xid of the GPU at 3b:00. `gpu` is what nvidia-smi says; None: it does not answer."""
    text = smi_log(gpu) if gpu is not None else "Unknown Error\n"
    path = program(tmp_path / "bin", "nvidia-smi", text, code=0 if gpu else 15)
    line = f"NVRM: Xid (PCI:0000:3b:00): {number}, pid=4242, name=python3, words of the driver"
    record = f"3,1,{(UP_S - age_s) * 1_000_000},-;{line}\n"
    root = machine(tmp_path / "root", {"dev/kmsg": record})
    return xids.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root))


def severity(result: CheckResult) -> Severity:
    (problem,) = result.problems
    return problem.finding.severity


def test_a_log_without_an_xid_is_ok(tmp_path: Path) -> None:
    root = machine(tmp_path / "root", {"dev/kmsg": "6,1,5,-;usb 1-1: new device\n"})

    result = xids.run(check_context(tmp_path, environ={"PATH": ""}, root=root))

    assert (result.status, result.summary) == (CheckStatus.OK, "the kernel's log has no Xid")


@pytest.mark.parametrize(
    ("number", "age_s", "expected"),
    [
        pytest.param(48, 60, Severity.ERROR, id="hardware"),
        pytest.param(31, 60, Severity.WARNING, id="application"),
        pytest.param(63, 60, Severity.NOTE, id="nothing-to-do"),
        pytest.param(999, 60, Severity.WARNING, id="unknown-number"),
        pytest.param(48, 11 * DAY_S, Severity.NOTE, id="hardware-eleven-days-ago"),
        pytest.param(31, 2 * DAY_S, Severity.NOTE, id="application-two-days-ago"),
    ],
)
def test_an_xid_weighs_by_its_number_and_its_age(
    tmp_path: Path, number: int, age_s: int, expected: Severity
) -> None:
    gpu = smi_gpu(gpu_recovery_action="N/A")

    result = checked(tmp_path, number, age_s=age_s, gpu=gpu)
    assert severity(result) is expected
    if number == 999:
        assert "docs.nvidia.com/deploy/xid-errors" in str(result.problems[0].finding.remedy)


def test_a_fault_is_told_with_its_gpu_meaning_and_words(tmp_path: Path) -> None:
    result = checked(tmp_path, 48, age_s=120, gpu=smi_gpu(gpu_recovery_action="Reset"))

    finding = result.problems[0].finding
    assert finding.summary == (
        "Xid 48 of GPU 0 (NVIDIA H100 80GB HBM3), 2 min 00 s ago: "
        "double bit ECC error: data in GPU memory was lost"
    )
    assert finding.evidence[0].excerpt == (
        "NVRM: Xid (PCI:0000:3b:00): 48, pid=4242, name=python3, words of the driver"
    )
    assert finding.remedy == "sudo nvidia-smi --gpu-reset -i 0"


@pytest.mark.parametrize(
    ("number", "gpu", "expected"),
    [
        # It was reset since.
        (95, smi_gpu(gpu_recovery_action="None"), Severity.WARNING),
        # The kernel's log is that of the whole machine: it is another job's GPU.
        (95, smi_gpu(1), Severity.NOTE),
        # It fell off the bus: not listed, and not forgotten.
        (79, smi_gpu(1), Severity.WARNING),
        (79, None, Severity.ERROR),
    ],
)
def test_a_fault_weighs_by_what_the_driver_says_now(
    tmp_path: Path, number: int, gpu: str | None, expected: Severity
) -> None:
    assert severity(checked(tmp_path, number, age_s=60, gpu=gpu)) is expected


def test_a_log_that_cannot_be_read_is_unknown_even_if_the_driver_answers(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(smi_gpu()))
    context = check_context(tmp_path, environ={"PATH": str(path)}, root=machine(tmp_path / "root"))

    (finished,) = run_checks([xids], context)

    assert finished.result.status is CheckStatus.UNKNOWN


@pytest.mark.parametrize(
    ("words", "up_s", "expected"),
    [
        ("24007, Fatal, Link 30 sourcetrack timeout error", 100, CheckStatus.WARNING),
        ("24007, Fatal, Link 30 sourcetrack timeout error", 10 * DAY_S, CheckStatus.OK),
        ("12028, Non-fatal, Link 32 egress error", 100, CheckStatus.OK),
    ],
)
def test_a_fatal_error_of_an_nvswitch_is_told(
    tmp_path: Path, words: str, up_s: int, expected: CheckStatus
) -> None:
    record = f"3,1,50000000,-;nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): {words}\n"
    files = {"dev/kmsg": record, "proc/uptime": f"{up_s} 1\n"}
    root = machine(tmp_path / "root", files)

    result = xids.run(check_context(tmp_path, environ={"PATH": ""}, root=root))

    assert result.status is expected
    assert ["SXid 24007" in each.finding.summary for each in result.problems] == [True] * (
        "Fatal" in words
    )


def test_a_machine_that_the_driver_wants_restarted_is_not_to_be_reset(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "nvidia-smi", smi_log(smi_gpu()))
    words = "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    record = f"3,1,{(UP_S - 60) * 1_000_000},-;NVRM: Xid (PCI:0000:3b:00): {words}\n"
    root = machine(tmp_path / "root", {"dev/kmsg": record})

    (problem,) = xids.run(check_context(tmp_path, environ={"PATH": str(path)}, root=root)).problems

    assert problem.finding.remedy == "Restart the machine."


FELL_OFF = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
PAGE_FAULT = "NVRM: Xid (PCI:0000:3c:00): 31, pid=4242, name=python3, Ch 00000008, intr 10000000."


@pytest.mark.parametrize(
    ("head", "age_s"),
    [
        ("6,1,5000000,-;usb 1-1: new device\n3,2,10000000,-;", 60.0),
        ("[   10.000000] ", 60.0),
        ("kern  :err   : [   10.000000] ", 60.0),
        ("[   10.000000]", 60.0),
        ("", None),
        # From the future: a container's own uptime is less than the host's, whose log it reads.
        ("3,2,99000000000,-;", None),
    ],
)
def test_records_of_kmsg_and_lines_of_dmesg_have_an_age(head: str, age_s: float | None) -> None:
    (line,) = driver_lines(f"{head}{FELL_OFF}\n SUBSYSTEM=pci\n", 70.0)

    assert (line.text, line.age_s) == (FELL_OFF, age_s)


def test_an_xid_is_counted_by_number_and_gpu_and_the_latest_is_kept() -> None:
    text = f"[1.0] {PAGE_FAULT}\n[5.0] {FELL_OFF}\n[9.0] {PAGE_FAULT}\n"

    fault, fell = xid_messages(driver_lines(text, 10.0))

    assert (fault.xid.number, fault.address, fault.count, fault.age_s) == (31, "3c:00", 2, 1.0)
    assert (fell.xid.number, fell.xid.matter) == (79, XidMatter.HARDWARE)


def test_the_form_of_old_drivers_is_read_too() -> None:
    (message,) = xid_messages(driver_lines("[1.0] NVRM: Xid (0000:01:00): 13, 0005 0000\n", 2.0))

    assert (message.xid.number, message.address) == (13, "01:00")


@pytest.mark.parametrize(
    ("text", "address"),
    [("0000:3b:00", "3b:00"), ("00000000:3B:00.0", "3b:00"), ("00000001:3B:00.0", "1:3b:00")],
)
def test_an_address_is_the_same_in_the_log_and_in_nvidia_smi(text: str, address: str) -> None:
    assert pci_address(text) == address


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


LINE = "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python3, DBE"


def test_the_buffer_is_read_to_its_end(tmp_path: Path) -> None:
    records = "".join(f"6,{number},{number},-;{LINE}\n" for number in range(5000))
    root = machine(tmp_path / "root", {"dev/kmsg": records})

    lines = read_kernel_log(check_context(tmp_path, environ={"PATH": ""}, root=root))

    assert len(lines) == 5000
    assert lines[-1].age_s == pytest.approx(999999.995)


@pytest.mark.parametrize("files", [{}, {"dev/kmsg": ""}], ids=["no kmsg", "an empty one"])
def test_a_container_without_kmsg_asks_dmesg(tmp_path: Path, files: dict[str, str]) -> None:
    path = program(tmp_path / "bin", "dmesg", f"[999990.0] {LINE}\n")
    root = machine(tmp_path / "root", {**files})

    (line,) = read_kernel_log(check_context(tmp_path, environ={"PATH": str(path)}, root=root))

    assert line.age_s == pytest.approx(10.0)


def test_what_nobody_may_read_is_unknown_with_all_reasons(tmp_path: Path) -> None:
    before = "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2"
    path = program(tmp_path / "bin", "dmesg", "", code=1, before=before)
    root = machine(tmp_path / "root")

    with pytest.raises(UndeterminedError) as caught:
        read_kernel_log(check_context(tmp_path, environ={"PATH": str(path)}, root=root))

    assert str(caught.value) == (
        f"the kernel's log cannot be read ({root}/dev/kmsg: No such file or directory; "
        "dmesg: read kernel buffer failed: Operation not permitted)"
    )


@pytest.mark.parametrize("has_kmsg", [True, False], ids=["kmsg-is-dev-null", "dmesg-was-cleared"])
def test_an_empty_log_of_the_kernel_is_unknown(tmp_path: Path, *, has_kmsg: bool) -> None:
    """Kubernetes in a container has /dev/null in the place of /dev/kmsg; `dmesg -C` empties dmesg."""
    path = program(tmp_path / "bin", "dmesg", "")
    root = machine(tmp_path / "root", {"dev/kmsg": ""} if has_kmsg else {})
    context = check_context(tmp_path, environ={"PATH": str(path)}, root=root)

    with pytest.raises(UndeterminedError, match=r"kernel's log is empty|log cannot be read"):
        read_kernel_log(context)


def test_a_buffer_without_an_end_does_not_hold_the_reader(tmp_path: Path) -> None:
    """A plain read would wait for the kernel's next message, as it does for that of a pipe."""
    root = machine(tmp_path / "root")
    (root / "dev").mkdir(exist_ok=True)
    os.mkfifo(root / "dev" / "kmsg")
    kernel = os.open(root / "dev" / "kmsg", os.O_RDWR)
    try:
        os.write(kernel, f"6,1,1,-;{LINE}\n".encode())
        (line,) = read_kernel_log(check_context(tmp_path, environ={"PATH": ""}, root=root))
    finally:
        os.close(kernel)

    assert line.text == LINE
