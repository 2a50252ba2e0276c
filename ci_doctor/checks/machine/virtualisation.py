# SPDX-License-Identifier: Apache-2.0
"""Reads what this machine is: bare metal, a virtual machine, a container, and which one."""

import re

from ci_doctor.checks.check import CheckResult, DoctorCheck
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.kernel_files import text_of

# What the DMI tables of a virtual machine name as vendor or product.
_HYPERVISORS = (
    ("Amazon EC2", "Amazon EC2"),
    ("Google", "Google Compute Engine"),
    ("Microsoft Corporation", "Hyper-V"),
    ("VMware", "VMware"),
    ("innotek", "VirtualBox"),
    ("Xen", "Xen"),
    ("OpenStack", "OpenStack"),
    ("QEMU", "QEMU"),
    ("KVM", "KVM"),
)
# The runtimes that put their name into the path of a cgroup.
_RUNTIMES = re.compile(r"\b(kubepods|docker|containerd|crio|libpod|lxc|garden)\b")
# gVisor answers with one build date, whatever its version, and newer ones with their name.
_GVISOR = ("gvisor", "sun jan 10 15:06:54 pst 2016")


def _run(context: CheckContext) -> CheckResult:
    container = _container(context)
    hypervisor = _hypervisor(context)
    sandbox = _is_gvisor(context)
    words = [f"a container ({container})" if container else "no container"]
    if sandbox:
        words.append("in gVisor")
    words.append(f"on a virtual machine ({hypervisor})" if hypervisor else "on no known hypervisor")
    figures = {"container": container, "hypervisor": hypervisor, "gvisor": sandbox}
    return CheckResult(summary=" ".join(words), figures=figures)


def _container(context: CheckContext) -> str | None:
    """The kind of the container as far as it shows; None if nothing shows one."""
    if context.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if (context.root / "run" / ".containerenv").exists():
        return "podman"
    if (context.root / ".dockerenv").exists():
        return "docker"
    # systemd-nspawn, LXC and podman set it for what they start.
    if context.environ.get("container"):
        return context.environ["container"]
    match = _RUNTIMES.search(text_of(context.proc / "self" / "cgroup") or "")
    return match[1] if match else None


def _hypervisor(context: CheckContext) -> str | None:
    version = (text_of(context.proc / "version") or "").lower()
    if "microsoft" in version:
        return "WSL"
    dmi = context.sys / "class" / "dmi" / "id"
    named = f"{text_of(dmi / 'sys_vendor') or ''} {text_of(dmi / 'product_name') or ''}"
    for word, name in _HYPERVISORS:
        # EC2's bare metal and Microsoft's own laptops are no virtual machines.
        if word in named and _has_hypervisor_flag(context):
            return name
    if _has_hypervisor_flag(context):
        return "unnamed"
    return text_of(context.sys / "hypervisor" / "type")


def _has_hypervisor_flag(context: CheckContext) -> bool:
    """Whether the CPU says that a hypervisor is below it (x86 only)."""
    try:
        with (context.proc / "cpuinfo").open(errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return "hypervisor" in line.split()
    except OSError:
        return False
    return False


def _is_gvisor(context: CheckContext) -> bool:
    version = (text_of(context.proc / "version") or "").lower()
    return any(mark in version for mark in _GVISOR)


CHECK = DoctorCheck(
    id="machine/virtualisation",
    title="virtual machine and container",
    run=_run,
)
