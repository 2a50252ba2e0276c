# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.machine.virtualisation import CHECK
from tests.support.checks import check_context
from tests.support.machine_trees import write_tree

GUEST = "processor : 0\nflags : fpu hypervisor avx2\n"
METAL = "processor : 0\nflags : fpu avx2\n"


@pytest.mark.parametrize(
    ("files", "environ", "words"),
    [
        ({"proc/cpuinfo": METAL}, {}, "no container on no known hypervisor"),
        (
            {"proc/cpuinfo": GUEST, "sys/class/dmi/id/sys_vendor": "Amazon EC2\n"},
            {},
            "no container on a virtual machine (Amazon EC2)",
        ),
        (
            {"proc/cpuinfo": METAL, "sys/class/dmi/id/sys_vendor": "Amazon EC2\n"},
            {},
            "no container on no known hypervisor",
        ),
        ({"proc/cpuinfo": GUEST}, {}, "no container on a virtual machine (unnamed)"),
        (
            {"proc/cpuinfo": METAL},
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
            "a container (kubernetes) on no known hypervisor",
        ),
        ({".dockerenv": ""}, {}, "a container (docker) on no known hypervisor"),
        ({"run/.containerenv": ""}, {}, "a container (podman) on no known hypervisor"),
        (
            {},
            {"container": "systemd-nspawn"},
            "a container (systemd-nspawn) on no known hypervisor",
        ),
        (
            {"proc/self/cgroup": "0::/kubepods.slice/pod1/cri\n"},
            {},
            "a container (kubepods) on no known hypervisor",
        ),
        (
            {
                ".dockerenv": "",
                "proc/version": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n",
            },
            {},
            "a container (docker) in gVisor on no known hypervisor",
        ),
        (
            {"proc/version": "Linux version 5.15.0-microsoft-standard-WSL2\n"},
            {},
            "no container on a virtual machine (WSL)",
        ),
        ({}, {}, "no container on no known hypervisor"),
    ],
)
def test_what_the_machine_is_stands_in_one_clause(
    tmp_path: Path, files: dict[str, str], environ: dict[str, str], words: str
) -> None:
    root = write_tree(tmp_path, files)

    result = CHECK.run(check_context(tmp_path, root=root, environ=environ))

    assert result.summary == words
    assert result.problems == ()
