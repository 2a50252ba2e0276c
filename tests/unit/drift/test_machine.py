# SPDX-License-Identifier: Apache-2.0

from pathlib import Path

import pytest

from ci_doctor.drift import machine
from ci_doctor.drift.compare import of_fact
from ci_doctor.drift.machine import gpu_facts, read_machine
from ci_doctor.identity.identity import Identity
from ci_doctor.model.facts.preparing import Suspicion
from tests.support.machine_trees import v2_tree, write_tree

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
    assert "sysctl.vm.max_map_count" in facts.unknown
    assert not [name for name in facts.facts if name.startswith("sysctl.vm")]
    assert "" not in facts.unknown.values()


def test_recorded_files_are_read_below_the_root(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": "MemTotal:       16000000 kB\nMemFree: 1 kB\n",
        "proc/self/status": "Name:\tx\nUmask:\t0027\n",
        "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    }
    root = write_tree(tmp_path, files)

    facts = read_machine({"LANG": "de_DE.UTF-8"}, root, gpu_limit_s=15.0).facts

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
    files = {
        "proc/sys/vm/max_map_count": "65530\n",
        "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    }

    facts = read_machine({}, write_tree(tmp_path, files), gpu_limit_s=15.0).facts

    assert facts["sysctl.vm.max_map_count"] == "65530"
    assert facts["sysctl.net.ipv4.ip_local_port_range"] == "32768 60999"
    assert facts["sysctl.transparent-hugepage.enabled"] == "madvise"
    # A kernel without the parameter is another one than a kernel with it.
    assert facts["sysctl.kernel.yama.ptrace_scope"] == "absent"
    assert of_fact("sysctl.vm.max_map_count").suspicion is Suspicion.FAILURE


def test_gpus_of_one_kind_are_one_fact(tmp_path: Path) -> None:
    facts = {
        "gpu0.name": "NVIDIA H200",
        "gpu1.name": "NVIDIA H200",
        "gpu0.uuid": "GPU-a",
        "gpu1.uuid": "GPU-b",
        "driver": "580.1",
    }
    unknown = {"gpu0.mig": "not reported", "gpu1.mig": "not reported"}

    machine = gpu_facts(Identity.of(facts, unknown), tmp_path)

    assert machine.facts == {
        "driver": "580.1",
        "gpu.name": "2 x NVIDIA H200",
        "gpu.uuid": "GPU-a, GPU-b",
    }
    assert machine.unknown == {"gpu.mig": "not reported"}


def test_firmware_is_read_from_the_drivers_files_and_a_machine_without_gpus_says_so(
    tmp_path: Path,
) -> None:
    assert gpu_facts(Identity.of({"gpu": "none"}), tmp_path).facts == {"gpu": "none"}
    for number, version in enumerate(("96.00.A0", "96.00.A0", "??.??.??")):
        folder = tmp_path / f"driver/nvidia/gpus/0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t X\nVideo BIOS: \t {version}\n")

    assert gpu_facts(Identity(), tmp_path).facts == {"gpu.vbios": "2 x 96.00.A0"}


def limits(memory: str, cpu: str) -> dict[str, str]:
    """The files of a cgroup with these limits."""
    return {"memory.max": f"{memory}\n", "memory.current": "5\n", "cpu.max": f"{cpu} 100000\n"}


def test_toolkit_and_limits_are_facts(tmp_path: Path) -> None:
    write_tree(tmp_path, {"opt/cuda/version.json": '{"cuda": {"version": "13.0.2"}}'})
    root = v2_tree(
        tmp_path,
        {"/ci": limits("8000000000", "150000"), "/ci/job": limits("max", "max")},
        own="/ci/job",
    )

    facts = read_machine({"CUDA_HOME": f"{root}/opt/cuda"}, root, gpu_limit_s=15.0).facts

    assert facts["cuda.toolkit"] == "13.0.2"
    assert (facts["limit.memory"], facts["limit.cpu"]) == ("8.0 GB", "1.5 CPUs")


def test_without_a_limit_there_is_none_and_a_toolkit_without_a_version_is_unknown(
    tmp_path: Path,
) -> None:
    root = v2_tree(tmp_path, {"/": {}}, own="/")

    facts = read_machine({}, root, gpu_limit_s=15.0).facts
    (tmp_path / "usr/local/cuda").mkdir(parents=True)
    unknown = read_machine({}, root, gpu_limit_s=15.0).unknown

    assert (facts["limit.memory"], facts["limit.cpu"]) == ("none", "none")
    assert facts["cuda.toolkit"] == "none"
    assert "cuda.toolkit" in unknown
