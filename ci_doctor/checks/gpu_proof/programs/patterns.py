# SPDX-License-Identifier: Apache-2.0
"""Acts on a GPU: writes patterns to its free memory, and reads them back.

Runs in the job's interpreter (launch.py).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MIB = 2**20
# Neighbouring bits that differ, both ways round.
PATTERNS = (0x55555555, -0x55555556)


def measure(torch: "Any", request: "Any") -> "dict[str, Any]":
    """How many bytes were tested, and how many words of 4 bytes came back otherwise.

    `request`: `device`, and the `share` of the free memory to take.
    """
    index = request["device"]
    device = f"cuda:{index}"
    free, _ = torch.cuda.mem_get_info(index)
    blocks = _blocks(torch, device, int(free * request["share"]))
    wrong = 0
    for pattern in PATTERNS:
        # All are written before the first is read: two that share a place would show.
        for number, block in enumerate(blocks):
            block.fill_(pattern ^ number)
        torch.cuda.synchronize(index)
        for number, block in enumerate(blocks):
            wrong += _wrong(torch, block, pattern ^ number)
    tested = sum(4 * block.numel() for block in blocks)
    return {"tested": tested, "wrong": wrong}


def _blocks(torch: "Any", device: str, size: int) -> "list[Any]":
    """Blocks of 512 MiB; fewer if another process takes memory meanwhile."""
    blocks = []
    for _ in range(size // (512 * MIB)):
        try:
            blocks.append(torch.empty(128 * MIB, dtype=torch.int32, device=device))
        except torch.cuda.OutOfMemoryError:
            break
    return blocks


def _wrong(torch: "Any", block: "Any", pattern: int) -> int:
    """In parts: a comparison needs a byte for each word."""
    wrong = 0
    for part in torch.split(block, 32 * MIB):
        wrong += int((part != pattern).sum().item())
    return wrong
