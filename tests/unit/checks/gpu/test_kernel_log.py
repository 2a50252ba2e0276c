# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest
from ci_doctor.checks.gpu.kernel_log import read_kernel_log

from ci_doctor.checks.check import UndeterminedError
from tests.support.checks import check_context
from tests.support.gpus import machine, program

LINE = "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python3, DBE"


def test_the_buffer_is_read_to_its_end(tmp_path: Path) -> None:
    records = "".join(f"6,{number},{number},-;{LINE}\n" for number in range(5000))
    root = machine(tmp_path / "root", {"dev/kmsg": records})

    lines = read_kernel_log(check_context(tmp_path, environ={"PATH": ""}, root=root))

    assert len(lines) == 5000
    assert lines[-1].age_s == pytest.approx(999999.995)


def test_a_container_without_kmsg_asks_dmesg(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "dmesg", f"[999990.0] {LINE}\n")
    root = machine(tmp_path / "root")

    (line,) = read_kernel_log(check_context(tmp_path, environ={"PATH": str(path)}, root=root))

    assert line.age_s == pytest.approx(10.0)


def test_a_user_who_may_read_syslogs_file_reads_that(tmp_path: Path) -> None:
    at = "2020-02-29T12:00:00.5+00:00"
    root = machine(tmp_path / "root", {"var/log/kern.log": f"{at} host kernel: [  5.0] {LINE}\n"})

    (line,) = read_kernel_log(check_context(tmp_path, environ={"PATH": ""}, root=root))

    assert line.age_s is not None
    assert line.age_s > 6 * 365 * 86400


def test_what_nobody_may_read_is_unknown_with_all_reasons(tmp_path: Path) -> None:
    before = "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2"
    path = program(tmp_path / "bin", "dmesg", "", code=1, before=before)
    root = machine(tmp_path / "root")

    with pytest.raises(UndeterminedError) as caught:
        read_kernel_log(check_context(tmp_path, environ={"PATH": str(path)}, root=root))

    assert str(caught.value) == (
        f"the kernel's log cannot be read ({root}/dev/kmsg: No such file or directory; "
        "dmesg: read kernel buffer failed: Operation not permitted; "
        "/var/log/kern.log: No such file or directory)"
    )


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="this user may not read /dev/kmsg")
def test_the_real_buffer_does_not_hold_the_reader(tmp_path: Path) -> None:
    """A plain read would wait for the kernel's next message."""
    read_kernel_log(check_context(tmp_path))
