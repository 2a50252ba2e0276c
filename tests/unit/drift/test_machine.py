# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.drift import machine
from ci_doctor.drift.change import Suspicion
from ci_doctor.drift.machine import read_machine
from ci_doctor.drift.suspicion import of_fact
from ci_doctor.identity.identity import Identity

_EVERYWHERE = {"cpu.architecture", "cpu.cores", "kernel", "locale", "ulimit.open-files"}


def test_this_machine_is_recorded() -> None:
    facts = read_machine({}, gpu_limit_s=15.0)

    assert {*_EVERYWHERE, "os", "memory", "umask"} <= {*facts.facts}
    assert "host" in facts.noted
    assert "host" not in facts.facts
    assert "" not in facts.facts.values()


def test_what_an_empty_root_does_not_show_is_unknown(tmp_path: Path) -> None:
    facts = read_machine({}, tmp_path, gpu_limit_s=15.0)

    assert {*_EVERYWHERE} <= {*facts.facts}
    assert {"memory", "os", "umask", "shared-memory", "limit.memory", "limit.cpu"} <= {
        *facts.unknown
    }
    assert "" not in facts.unknown.values()


def test_recorded_files_are_read_below_the_root(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": "MemTotal:       16000000 kB\nMemFree: 1 kB\n",
        "proc/self/status": "Name:\tx\nUmask:\t0027\n",
        "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    facts = read_machine({"LANG": "de_DE.UTF-8"}, tmp_path, gpu_limit_s=15.0).facts

    assert facts["memory"] == "16.4 GB"
    assert facts["umask"] == "0027"
    assert facts["os"] == "Debian GNU/Linux 12 (bookworm)"
    assert facts["locale"] == "de_DE.UTF-8"


def test_a_driver_that_hangs_is_unknown_and_the_rest_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import threading

    asked = threading.Event()

    def hang(*_: object) -> Identity:
        asked.wait()
        raise AssertionError("nobody waits for it any more")

    monkeypatch.setattr(machine, "hardware", hang)

    facts = read_machine({}, gpu_limit_s=0.01)

    assert facts.unknown["driver"] == "the NVIDIA driver did not answer within 0.01 s"
    assert "os" in facts.facts


def test_parameters_of_the_kernel_are_facts(tmp_path: Path) -> None:
    settings = tmp_path / "proc" / "sys"
    pages = tmp_path / "sys" / "kernel" / "mm" / "transparent_hugepage"
    for path, text in {
        settings / "vm" / "max_map_count": "65530\n",
        settings / "net" / "ipv4" / "ip_local_port_range": "32768\t60999\n",
        pages / "enabled": "always [madvise] never\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    facts = read_machine({}, tmp_path, gpu_limit_s=15.0).facts

    assert facts["sysctl.vm.max_map_count"] == "65530"
    assert facts["sysctl.net.ipv4.ip_local_port_range"] == "32768 60999"
    assert facts["sysctl.transparent-hugepage.enabled"] == "madvise"
    # A kernel without the parameter is another one than a kernel with it.
    assert facts["sysctl.kernel.yama.ptrace_scope"] == "absent"
    assert of_fact("sysctl.vm.max_map_count").suspicion is Suspicion.FAILURE


def test_without_proc_no_parameter_is_known(tmp_path: Path) -> None:
    facts = read_machine({}, tmp_path, gpu_limit_s=15.0)

    assert "sysctl.vm.max_map_count" in facts.unknown
    assert not [name for name in facts.facts if name.startswith("sysctl.vm")]
