# SPDX-License-Identifier: Apache-2.0
"""Makes stand-ins of NVIDIA's tools: documents as `nvidia-smi -q -x` writes them, and programs that print them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.packages import dist_info

IDLE = """
<clocks_{kind}_reason_gpu_idle>Active</clocks_{kind}_reason_gpu_idle>
<clocks_{kind}_reason_sw_power_cap>Not Active</clocks_{kind}_reason_sw_power_cap>
<clocks_{kind}_reason_hw_slowdown>{hot}</clocks_{kind}_reason_hw_slowdown>
<clocks_{kind}_reason_hw_thermal_slowdown>{hot}</clocks_{kind}_reason_hw_thermal_slowdown>
<clocks_{kind}_reason_hw_power_brake_slowdown>Not Active</clocks_{kind}_reason_hw_power_brake_slowdown>
<clocks_{kind}_reason_sw_thermal_slowdown>Not Active</clocks_{kind}_reason_sw_thermal_slowdown>
"""


def smi_gpu(
    index: int = 0,
    *,
    name: str = "NVIDIA H100 80GB HBM3",
    total: int | str = 81559,
    free: int | str = 80994,
    reserved: int = 560,
    uncorrected: int | str = 0,
    processes: Sequence[tuple[int, str, int | str]] | str = (),
    parts: Sequence[int] = (),
    **changes: str,
) -> str:
    """One `<gpu>` of driver 580; sizes in MiB, `processes` are pid, name and MiB, `parts` the MiB of MIG devices.

    `changes` replace the text of the first element of a name.
    """
    used = total - free - reserved if isinstance(total, int) and isinstance(free, int) else "N/A"
    text = f"""
<gpu id="00000000:{index + 0x3B:02X}:00.0">
  <product_name>{name}</product_name>
  <persistence_mode>Enabled</persistence_mode>
  <mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
  <mig_devices>{"".join(map(_part, range(len(parts)), parts)) or "None"}</mig_devices>
  <uuid>GPU-{index:08x}-1111-2222-3333-444455556666</uuid>
  <minor_number>{index}</minor_number>
  <gpu_reset_status>
    <reset_required>Requested functionality has been deprecated</reset_required>
    <drain_and_reset_recommended>Requested functionality has been deprecated</drain_and_reset_recommended>
  </gpu_reset_status>
  <gpu_recovery_action>None</gpu_recovery_action>
  <clocks_event_reasons>{IDLE.format(kind="event", hot="Not Active")}</clocks_event_reasons>
  <fb_memory_usage>
    <total>{_mib(total)}</total><reserved>{reserved} MiB</reserved>
    <used>{_mib(used)}</used><free>{_mib(free)}</free>
  </fb_memory_usage>
  <compute_mode>Default</compute_mode>
  <ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
  <ecc_errors>
    <volatile>
      <sram_correctable>0</sram_correctable>
      <sram_uncorrectable_parity>0</sram_uncorrectable_parity>
      <sram_uncorrectable_secded>0</sram_uncorrectable_secded>
      <dram_correctable>2</dram_correctable>
      <dram_uncorrectable>{uncorrected}</dram_uncorrectable>
    </volatile>
    <aggregate>
      <sram_uncorrectable_parity>0</sram_uncorrectable_parity>
      <dram_uncorrectable>7</dram_uncorrectable>
      <sram_threshold_exceeded>No</sram_threshold_exceeded>
    </aggregate>
  </ecc_errors>
  <retired_pages><pending_blacklist>N/A</pending_blacklist><pending_retirement>N/A</pending_retirement></retired_pages>
  <remapped_rows>
    <remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure>
  </remapped_rows>
  <processes>{processes if isinstance(processes, str) else "".join(map(_process, processes))}</processes>
</gpu>"""
    for tag, value in changes.items():
        before, opening, rest = text.partition(f"<{tag}>")
        _, closing, after = rest.partition(f"</{tag}>")
        if not closing:
            raise ValueError(f"no element {tag}")
        text = before + opening + value + closing + after
    return text


def volta(*, double_bit: int = 0, pending: str = "No", hot: str = "Not Active") -> str:
    """One `<gpu>` of driver 470, on a card from before ECC was counted by kind of memory."""
    return f"""
<gpu id="00000000:04:00.0">
  <product_name>Tesla V100-SXM2-16GB</product_name>
  <persistence_mode>Enabled</persistence_mode>
  <mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode>
  <mig_devices>None</mig_devices>
  <uuid>GPU-70707070-1111-2222-3333-444455556666</uuid>
  <clocks_throttle_reasons>{IDLE.format(kind="throttle", hot=hot)}</clocks_throttle_reasons>
  <fb_memory_usage><total>16160 MiB</total><used>0 MiB</used><free>16160 MiB</free></fb_memory_usage>
  <compute_mode>Default</compute_mode>
  <ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
  <ecc_errors>
    <volatile>
      <single_bit><device_memory>0</device_memory><total>0</total></single_bit>
      <double_bit><device_memory>{double_bit}</device_memory><total>{double_bit}</total></double_bit>
    </volatile>
    <aggregate><double_bit><total>9</total></double_bit></aggregate>
  </ecc_errors>
  <retired_pages><pending_retirement>{pending}</pending_retirement></retired_pages>
  <remapped_rows>N/A</remapped_rows>
  <processes></processes>
</gpu>"""


def _part(index: int, total: int) -> str:
    return f"""
<mig_device>
  <index>{index}</index><gpu_instance_id>{index + 7}</gpu_instance_id><compute_instance_id>0</compute_instance_id>
  <fb_memory_usage><total>{total} MiB</total><used>12 MiB</used><free>{total - 12} MiB</free></fb_memory_usage>
</mig_device>"""


def _process(row: tuple[int, str, int | str]) -> str:
    pid, name, used = row
    return f"""
<process_info><pid>{pid}</pid><type>C</type><process_name>{name}</process_name><used_memory>{_mib(used)}</used_memory></process_info>"""


def _mib(value: int | str) -> str:
    return f"{value} MiB" if isinstance(value, int) else value


def smi_log(*gpus: str, driver: str = "580.65.06", cuda: str = "13.0") -> str:
    """The whole document."""
    return f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
<timestamp>Sun Nov 22 12:00:00 2026</timestamp>
<driver_version>{driver}</driver_version>
<cuda_version>{cuda}</cuda_version>
<attached_gpus>{len(gpus)}</attached_gpus>
{"".join(gpus)}
</nvidia_smi_log>
"""


def program(directory: Path, name: str, text: str, *, code: int = 0, before: str = "") -> Path:
    """A program that runs `before`, prints `text` on stdout and exits with `code`."""
    directory.mkdir(parents=True, exist_ok=True)
    output = directory / f"{name}.txt"
    output.write_text(text)
    path = directory / name
    path.write_text(
        f"#!/bin/sh\n{before}\nwhile IFS= read -r line; do echo \"$line\"; done < '{output}'\nexit {code}\n"
    )
    path.chmod(0o755)
    return directory


PARTS = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-1111-2222-3333-444455556666)
  MIG 1g.10gb     Device  0: (UUID: MIG-aaaa1111)
  MIG 2g.20gb     Device  1: (UUID: MIG-bbbb2222)
"""


def divided_machine(directory: Path, *gpus: str) -> dict[str, str]:
    """An nvidia-smi that lists PARTS for `-L`, and `gpus` otherwise; the variables to find it."""
    divided = smi_gpu(current_mig="Enabled", pending_mig="Enabled", parts=(9856, 20096))
    path = program(directory / "bin", "log", smi_log(*(gpus or (divided,))))
    program(path, "nvidia-smi", PARTS, before=f'[ "$1" = -q ] && exec "{path}/log"')
    return {"PATH": str(path)}


def machine(
    root: Path, files: Mapping[str, str | bytes] | None = None, *, loaded: str | None = "580.65.06"
) -> Path:
    """A recorded tree with /proc, /sys and /dev; `loaded` is the driver's version, None without one."""
    for name in ("proc", "sys", "dev"):
        (root / name).mkdir(parents=True, exist_ok=True)
    recorded: dict[str, str | bytes] = {"proc/uptime": "1000000.00 2000000.00\n", **(files or {})}
    if loaded is not None:
        line = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {loaded}  Release Build  (dvs-builder)\n"
        recorded["proc/driver/nvidia/version"] = line
    for name, content in recorded.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def on_gpu(root: Path, pid: int, *, opens_gpu: bool = True) -> Path:
    """Record a process in `root`, started 100 s ago: the machine is up for 1,000,000 s. Returns `root`."""
    ticks = 999_900 * os.sysconf("SC_CLK_TCK")
    files = {
        "cmdline": "/opt/venv/bin/python3\0-m\0vllm.entrypoints\0",
        "stat": f"{pid} (python3) S 1 1 1 {'0 ' * 15}{ticks}{' 0' * 30}\n",
        "environ": "BUILDKITE_JOB_ID=0199-other\0",
        "maps": "",
    }
    place = root / "proc" / str(pid)
    (place / "fd").mkdir(parents=True)
    for name, content in files.items():
        (place / name).write_text(content)
    if opens_gpu:
        (place / "fd" / "7").symlink_to("/dev/nvidia0")
    return root


def venv(directory: Path, packages: Mapping[str, str]) -> Path:
    """The files of a virtual environment with `packages`, by name and version; its python, which cannot run."""
    site = directory / "lib" / "python3.12" / "site-packages"
    for name, version in packages.items():
        dist_info(site, name, version)
    python = directory / "bin" / "python"
    python.parent.mkdir()
    python.write_bytes(b"")
    (directory / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return python


def torch_venv(directory: Path, version: str, cuda: str | None, **packages: str) -> Path:
    """The same with PyTorch, built for `cuda` (None: for the CPU); `_` in names of `packages` stands for `-`."""
    more = {name.replace("_", "-"): number for name, number in packages.items()}
    python = venv(directory, {"torch": version, **more})
    torch = directory / "lib" / "python3.12" / "site-packages" / "torch"
    torch.mkdir()
    text = f"__version__ = {version!r}\ndebug = False\ncuda: Optional[str] = {cuda!r}\nhip: Optional[str] = None\n"
    (torch / "version.py").write_text(text)
    return python
