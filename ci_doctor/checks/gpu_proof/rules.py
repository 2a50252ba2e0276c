# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `gpu_proof`."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

GPU_UNUSABLE: Final = Rule(
    id="doctor/gpu-unusable",
    severity=Severity.ERROR,
    meaning="The job's torch cannot compute on a GPU of this machine. The driver may be too old for "
    "torch's CUDA. The GPU may have failed, or another process may hold it in exclusive mode. Or "
    "torch has no kernels for this GPU.",
    remedy="The text of the error names the cause. Compare `nvidia-smi` with `torch.version.cuda` and "
    "`torch.cuda.get_arch_list()`. A GPU that has failed needs a reset or another agent.",
)
MEMORY_BANDWIDTH_LOW: Final = Rule(
    id="doctor/memory-bandwidth-low",
    severity=Severity.WARNING,
    meaning="A copy within a GPU's memory is far slower than the manufacturer's figure for the card. "
    "Throughput tests on this agent measure the agent.",
    remedy="See `nvidia-smi -q -d CLOCK,PERFORMANCE,POWER,TEMPERATURE` for what holds its clocks "
    "down, and whether another process uses it.",
)
PCIE_LINK_NARROW: Final = Rule(
    id="doctor/pcie-link-narrow",
    severity=Severity.WARNING,
    meaning="The PCIe link of a GPU runs with fewer lanes under load than the card has. A card that "
    "is not seated well, or stands in a slot of fewer lanes, does this; loading of weights and "
    "offloading of KV caches are slower by that factor.",
    remedy="Compare with other agents of the same kind; the machine's owner can reseat the card.",
)
HOST_COPY_SLOW: Final = Rule(
    id="doctor/host-copy-slow",
    severity=Severity.WARNING,
    meaning="Copies between pinned memory of the host and a GPU are slower than half of what their "
    "PCIe link carries.",
    remedy="Other processes on the link, a distant NUMA node (`nvidia-smi topo -m`), an IOMMU or "
    "confidential computing make it so. Compare with another agent.",
)
GPU_MEMORY_KEPT: Final = Rule(
    id="doctor/gpu-memory-kept",
    severity=Severity.ERROR,
    meaning="A process was killed, and the memory it had taken on a GPU did not become free. The next "
    "server that starts there runs out of memory.",
    remedy="See `nvidia-smi` for who holds it. Memory of no process needs a reset of the GPU by the "
    "machine's owner.",
)
GPU_MEMORY_LATE: Final = Rule(
    id="doctor/gpu-memory-late",
    severity=Severity.WARNING,
    meaning="Memory of a GPU became free only seconds after the process that held it was killed. A "
    "server that starts meanwhile runs out of memory.",
    remedy='Wait for it between two servers: `released = ["gpu-memory"]` of `ci-doctor restart-check`.',
)
PEER_COPY_WRONG: Final = Rule(
    id="doctor/peer-copy-wrong",
    severity=Severity.ERROR,
    meaning="What was copied from one GPU to another arrived with other bytes. Tensor parallel "
    "programs give wrong results here.",
    remedy="Switch off ACS and the IOMMU for the GPUs' PCIe bridges (NCCL's guide, Troubleshooting, "
    "PCI access control services). Until then `NCCL_P2P_DISABLE=1` avoids direct copies by NCCL.",
)
PEER_ACCESS_MISSING: Final = Rule(
    id="doctor/peer-access-missing",
    severity=Severity.WARNING,
    meaning="Two GPUs are connected by NVLink and have no access to each other's memory. Copies go "
    "through the host.",
    remedy="On machines with NVSwitch, the fabric manager must run: `systemctl status "
    "nvidia-fabricmanager`. A container needs all GPUs of the fabric's partition.",
)
GPU_MEMORY_CORRUPT: Final = Rule(
    id="doctor/gpu-memory-corrupt",
    severity=Severity.ERROR,
    meaning="A pattern was written to a GPU's memory, and other bytes were read back. Results of this "
    "GPU mean nothing.",
    remedy="Take the agent out of the queue, and give the report to the machine's owner.",
)
ECC_UNCORRECTED: Final = Rule(
    id="doctor/ecc-errors-under-load",
    severity=Severity.ERROR,
    meaning="The count of ECC errors that could not be corrected grew while the GPU was measured. The "
    "driver ends the processes whose data it hits.",
    remedy="Take the agent out of the queue, and have the GPU reset: `nvidia-smi -q -d "
    "ECC,ROW_REMAPPER` says what is pending.",
)
ECC_CORRECTED: Final = Rule(
    id="doctor/ecc-corrections-under-load",
    severity=Severity.WARNING,
    meaning="The GPU corrected ECC errors in its memory while it was measured. The data was right; a "
    "count that grows within minutes announces errors that cannot be corrected.",
    remedy="`nvidia-smi -q -d ECC,ROW_REMAPPER` for the machine's owner.",
)
WORKSPACE_WITHOUT_EFFECT: Final = Rule(
    id="doctor/workspace-without-effect",
    severity=Severity.NOTE,
    meaning="Matrix products gave the same bytes in every start, with `CUBLAS_WORKSPACE_CONFIG` and "
    "without it: the determinism profile changes nothing here for these products. Other kernels "
    "(attention, Triton, FlashInfer, collectives) are not looked at.",
)
WORKSPACE_CHANGES_RESULT: Final = Rule(
    id="doctor/workspace-changes-result",
    severity=Severity.NOTE,
    meaning="Matrix products give the same bytes in every start, but other bytes with "
    "`CUBLAS_WORKSPACE_CONFIG` than without it. Answers of a server with it cannot be compared byte "
    "by byte with answers of one without it.",
    remedy="Set the variable on both sides of a comparison, or on neither.",
)
WORKSPACE_NEEDED: Final = Rule(
    id="doctor/workspace-needed",
    severity=Severity.WARNING,
    meaning="Matrix products varied from start to start without `CUBLAS_WORKSPACE_CONFIG`, and not "
    "with it.",
    remedy="Set it for every start that is compared: `ci-doctor setup-env --determinism default`.",
)
WORKSPACE_HARMFUL: Final = Rule(
    id="doctor/workspace-harmful",
    severity=Severity.WARNING,
    meaning="Matrix products varied from start to start with `CUBLAS_WORKSPACE_CONFIG`, and not "
    "without it.",
    remedy="Leave the variable out here: `ci-doctor setup-env --determinism off`. Please report it "
    "with the versions of torch, driver and GPU.",
)
PRODUCTS_VARY: Final = Rule(
    id="doctor/products-vary",
    severity=Severity.WARNING,
    meaning="Matrix products of the same operands gave different bytes from start to start. The "
    "measurement does not show that `CUBLAS_WORKSPACE_CONFIG` prevents it. A comparison of "
    "answers byte by byte then reports differences that no change has made.",
    remedy="Compare with a control: `ci-doctor correctness` starts the baseline more than once.",
)

RULES: Final[tuple[Rule, ...]] = (
    GPU_UNUSABLE,
    MEMORY_BANDWIDTH_LOW,
    PCIE_LINK_NARROW,
    HOST_COPY_SLOW,
    GPU_MEMORY_KEPT,
    GPU_MEMORY_LATE,
    PEER_COPY_WRONG,
    PEER_ACCESS_MISSING,
    GPU_MEMORY_CORRUPT,
    ECC_UNCORRECTED,
    ECC_CORRECTED,
    WORKSPACE_WITHOUT_EFFECT,
    WORKSPACE_CHANGES_RESULT,
    WORKSPACE_NEEDED,
    WORKSPACE_HARMFUL,
    PRODUCTS_VARY,
)
