# SPDX-License-Identifier: Apache-2.0
"""Pure. What manufacturers say of their cards: memory bandwidth and PCIe lanes, by name."""

from typing import Final

from msgspec import Struct

_GB: Final = 1_000_000_000


class CardFigure(Struct, frozen=True, kw_only=True):
    """`bandwidth` of the memory in bytes a second, the theoretical peak; `source` names the document.

    `lanes` of its PCIe link.
    """

    bandwidth: int
    lanes: int
    source: str


def _card(gigabytes: int, source: str, lanes: int = 16) -> CardFigure:
    return CardFigure(bandwidth=gigabytes * _GB, lanes=lanes, source=source)


_A100 = "NVIDIA A100 Tensor Core GPU datasheet"
_A100_40 = "NVIDIA A100 Tensor Core GPU Architecture whitepaper, table 4"
_H100 = "NVIDIA H100 Tensor Core GPU datasheet"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet"
_V100 = "NVIDIA V100 Tensor Core GPU datasheet"
_GEFORCE = "nvidia.com, specifications of the GeForce card"

# By the name that nvidia-smi and torch print, in small letters and without the manufacturer. What is
# not in here is unknown; a name is never guessed.
CARDS: Final = {
    "v100-sxm2-16gb": _card(900, _V100),
    "v100-sxm2-32gb": _card(900, _V100),
    "v100-pcie-16gb": _card(900, _V100),
    "v100-pcie-32gb": _card(900, _V100),
    "t4": _card(320, "NVIDIA T4 Tensor Core GPU datasheet"),
    "a10": _card(600, "NVIDIA A10 Tensor Core GPU datasheet"),
    "a10g": _card(600, "Amazon EC2 G5 Instances, product page"),
    "a30": _card(933, "NVIDIA A30 Tensor Core GPU datasheet"),
    "a40": _card(696, "NVIDIA A40 GPU Accelerator product brief"),
    "a100-sxm4-40gb": _card(1555, _A100_40),
    "a100-pcie-40gb": _card(1555, _A100_40),
    "a100-sxm4-80gb": _card(2039, _A100),
    "a100 80gb pcie": _card(1935, _A100),
    "h100 80gb hbm3": _card(3350, _H100),
    "h100 pcie": _card(2000, _H100),
    "h100 nvl": _card(3900, _H100),
    "h200": _card(4800, _H200),
    "h200 nvl": _card(4800, _H200),
    "b200": _card(8000, "NVIDIA DGX B200 datasheet: 64 TB/s for eight"),
    "l4": _card(300, "NVIDIA L4 Tensor Core GPU datasheet"),
    "l40": _card(864, "NVIDIA L40 GPU datasheet"),
    "l40s": _card(864, "NVIDIA L40S GPU datasheet"),
    "rtx a6000": _card(768, "NVIDIA RTX A6000 datasheet"),
    "rtx 6000 ada generation": _card(960, "NVIDIA RTX 6000 Ada Generation datasheet"),
    "geforce rtx 3090": _card(936, _GEFORCE),
    "geforce rtx 4090": _card(1008, _GEFORCE),
    "geforce rtx 5090": _card(1792, _GEFORCE),
}


def card_figure(name: str) -> CardFigure | None:
    """The figures of the card with this name; None for one that is not listed, or a part of one."""
    words = name.lower().split()
    while words and words[0] in {"nvidia", "tesla"}:
        del words[0]
    return CARDS.get(" ".join(words))
