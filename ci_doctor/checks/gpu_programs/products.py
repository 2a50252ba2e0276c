# SPDX-License-Identifier: Apache-2.0
"""Acts on a GPU: the bytes of matrix products, as digests, for one start of a process.

Runs in the job's interpreter (launch.py).
"""

import ctypes
import hashlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Name, dtype, rows, inner size, columns. Few rows and a long inner size are where cuBLAS divides the
# sum among blocks (split-K), and adds the parts up in its workspace. The others are the projections
# of a server that decodes and of one that prefills.
SHAPES = (
    ("bf16 8x16384x4096", "bfloat16", 8, 16384, 4096),
    ("fp16 8x16384x4096", "float16", 8, 16384, 4096),
    ("fp32 8x16384x4096", "float32", 8, 16384, 4096),
    ("bf16 1x4096x14336", "bfloat16", 1, 4096, 14336),
    ("bf16 1024x4096x4096", "bfloat16", 1024, 4096, 4096),
)
# Two streams of one process share cuBLAS's handle or its workspace: the case that the documentation
# of cuBLAS (section Results reproducibility) leaves open.
STREAMS = ("bf16 addmm on two streams", "bfloat16", 64, 8192, 4096)
REPETITIONS = 8


def measure(torch: "Any", request: "Any") -> "dict[str, Any]":
    """A digest of the output of each case, and whether repetitions within this start differ.

    `request`: the index of the `device`. `inputs` is a digest of the operands, which must be the same
    in every start. `skipped` maps a case that this GPU or torch cannot compute to the reason.
    """
    device = f"cuda:{request['device']}"
    cases = {}
    skipped = {}
    sums = []
    with torch.cuda.device(device):
        for name, dtype, rows, inner, columns in (*SHAPES, STREAMS):
            operands = _operands(torch, device, dtype, rows, inner, columns)
            sums.extend([_sum(torch, each) for each in operands])
            try:
                outputs = _outputs(torch, device, name, operands)
            except torch.cuda.OutOfMemoryError:
                raise
            # Old GPUs have no product for every dtype.
            except RuntimeError as error:
                skipped[name] = (str(error).strip().splitlines() or [""])[0][:200]
                continue
            cases[name] = _case(torch, device, outputs)
    if not cases:
        raise RuntimeError(f"no product could be computed: {min(skipped.values())}")
    inputs = hashlib.sha256(repr(sums).encode()).hexdigest()[:16]
    return {"products": {"cases": cases, "skipped": skipped, "inputs": inputs}}


def _outputs(torch: "Any", device: str, name: str, operands: "tuple[Any, Any, Any]") -> "list[Any]":
    left, right, bias = operands
    if name == STREAMS[0]:
        return _on_two_streams(torch, device, left, right, bias)
    outputs = [left @ right for _ in range(REPETITIONS)]
    torch.cuda.synchronize(device)
    return outputs


def _operands(
    torch: "Any", device: str, dtype: str, rows: int, inner: int, columns: int
) -> "tuple[Any, Any, Any]":
    """The same in every start: from a seed, by the counter-based generator of the device."""
    generator = torch.Generator(device=device)
    generator.manual_seed(20261122)
    operands = []
    for shape in ((rows, inner), (inner, columns), (columns,)):
        values = torch.randn(shape, generator=generator, device=device, dtype=torch.float32)
        operands.append(values.to(getattr(torch, dtype)))
    return operands[0], operands[1], operands[2]


def _on_two_streams(
    torch: "Any", device: str, left: "Any", right: "Any", bias: "Any"
) -> "list[Any]":
    streams = [torch.cuda.Stream(device=device), torch.cuda.Stream(device=device)]
    # The operands were made on the current stream, and the others do not wait for it by themselves.
    torch.cuda.synchronize(device)
    outputs = []
    for turn in range(REPETITIONS):
        with torch.cuda.stream(streams[turn % 2]):
            outputs.append(torch.addmm(bias, left, right))
    torch.cuda.synchronize(device)
    return outputs


def _case(torch: "Any", device: str, outputs: "list[Any]") -> "dict[str, Any]":
    torch.cuda.synchronize(device)
    digests = [_digest(each) for each in outputs]
    whole = hashlib.sha256("".join(digests).encode()).hexdigest()[:16]
    return {"digest": whole, "differing": len(set(digests))}


def _digest(output: "Any") -> str:
    # By its address: numpy may not be there, and a tensor in bfloat16 has no numpy type.
    kept = output.cpu().contiguous()
    size = kept.numel() * kept.element_size()
    return hashlib.sha256(ctypes.string_at(kept.data_ptr(), size)).hexdigest()


def _sum(torch: "Any", operand: "Any") -> int:
    """A sum of the bits: sums of whole numbers are exact in any order."""
    whole = {2: torch.int16, 4: torch.int32}[operand.element_size()]
    return int(operand.view(whole).sum(dtype=torch.int64).item())
