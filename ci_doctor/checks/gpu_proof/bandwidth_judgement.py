# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether measured rates of a GPU are those that its card and its PCIe link have."""

from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, Problem, problem
from ci_doctor.checks.gpu_proof.card_figures import card_figure
from ci_doctor.checks.gpu_proof.rules import (
    HOST_COPY_SLOW,
    MEMORY_BANDWIDTH_LOW,
    PCIE_LINK_NARROW,
)
from ci_doctor.render.formatting import percent, rate

# A copy moves 75 to 92 % of the figure on healthy cards, those with ECC in the memory itself least.
LEAST_OF_CARD: Final = 0.6
# A copy of less moves within caches (126 MB of a B200), or takes less time than it takes to start.
_LEAST_SIZE: Final = 512 * 2**20
# Pinned copies reach about 80 to 88 % of what a link carries. A distant NUMA node costs some of it.
LEAST_OF_LINK: Final = 0.5
# Bytes a second of one lane by generation: transfers a second, after the encoding of the line
# (PCI Express Base Specification: 8b/10b, 128b/130b since 3.0, flits in 6.0).
_LANE: Final = {
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 236 / 256 / 8,
}


class PcieLink(Struct, frozen=True, kw_only=True):
    """A link under load, as the driver says: None for what it does not."""

    generation: int | None
    lanes: int | None
    most_lanes: int | None

    @property
    def rate(self) -> float | None:
        """Bytes a second that the link carries each way; None if that is unknown."""
        lane = _LANE.get(self.generation or 0)
        if lane is None or not self.lanes:
            return None
        return lane * self.lanes


class MeasuredRates(Struct, frozen=True, kw_only=True):
    """Rates in bytes a second, one for each round; programs/copies.py says what is counted."""

    size: int
    within: tuple[float, ...]
    to_device: tuple[float, ...]
    to_host: tuple[float, ...]
    link: str | None


def judge_bandwidth(label: str, name: str, rates: MeasuredRates, link: PcieLink) -> CheckResult:
    """What the rates of the GPU `label`, a card with this `name`, say."""
    # The best round: what the card can do. A slow round has other reasons.
    within, to_device, to_host = (
        max(rates.within),
        max(rates.to_device),
        max(rates.to_host),
    )
    summary = (
        f"{label} copies its memory at {rate(within)}, takes {rate(to_device)} from the host and "
        f"gives {rate(to_host)}"
    )
    memory, memory_unknown = _memory(label, name, within, rates.size)
    host, host_unknown = _host(label, name, min(to_device, to_host), link)
    figures = {
        "copy_bytes_per_s": round(within),
        "host_to_device_bytes_per_s": round(to_device),
        "device_to_host_bytes_per_s": round(to_host),
        "pcie_generation": link.generation,
        "pcie_lanes": link.lanes,
    }
    return CheckResult(
        summary=summary,
        problems=(*memory, *host),
        unknown="; ".join((*memory_unknown, *host_unknown)) or None,
        figures=figures,
    )


def _memory(label: str, name: str, within: float, size: int) -> tuple[list[Problem], list[str]]:
    if size < _LEAST_SIZE:
        return [], [f"{label}: too little memory is free to measure it and not the caches"]
    card = card_figure(name)
    if card is None:
        return [], [f"{label}: the manufacturer's figure for this card is not known here"]
    share = within / card.bandwidth
    if share >= LEAST_OF_CARD:
        return [], []
    words = f"{label} copies its memory at {rate(within)}, {percent(round(share, 2))} of {rate(card.bandwidth)}"
    return [problem(MEMORY_BANDWIDTH_LOW, f"{words} ({card.source})")], []


def _host(label: str, name: str, slower: float, link: PcieLink) -> tuple[list[Problem], list[str]]:
    problems = []
    carried = link.rate
    if carried is None:
        return [], [f"{label}: the driver does not say how its PCIe link runs"]
    lanes = _most_lanes(name, link)
    if lanes is not None and link.lanes is not None and link.lanes < lanes:
        words = f"{label} runs with {link.lanes} of {lanes} PCIe lanes under load"
        problems.append(problem(PCIE_LINK_NARROW, words))
    if slower < LEAST_OF_LINK * carried:
        words = (
            f"{label} exchanges {rate(slower)} with the host over a link of PCIe "
            f"{link.generation} x{link.lanes}, which carries {rate(carried)}"
        )
        problems.append(problem(HOST_COPY_SLOW, words))
    return problems, []


def _most_lanes(name: str, link: PcieLink) -> int | None:
    """Of the card: what the driver calls the most is that of card and slot together."""
    card = card_figure(name)
    if card is not None:
        return card.lanes
    return link.most_lanes
