# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs: measures copies within each, and between each and the host."""

from typing import Final

from ci_doctor.checks.check import CheckResult, UndeterminedError, unknown_result
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu_proof.bandwidth_judgement import (
    MeasuredRates,
    PcieLink,
    judge_bandwidth,
)
from ci_doctor.checks.gpu_proof.cards import ProofCard, working_cards, working_torch
from ci_doctor.checks.gpu_proof.driver import number, parse_rows, smi_words
from ci_doctor.checks.gpu_proof.program import ask_torch, values_of
from ci_doctor.checks.gpu_proof.several import combined
from ci_doctor.checks.gpu_proof.turn import proof

_LIMIT_S: Final = 120.0
# Many times the largest cache of a GPU (126 MB of a B200).
_SIZE: Final = 2 * 2**30
_HOST_SIZE: Final = 256 * 2**20
_LINK: Final = (
    "uuid",
    "pcie.link.gen.current",
    "pcie.link.width.current",
    "pcie.link.width.max",
)


def _measure(context: CheckContext) -> CheckResult:
    return combined([_card(context, card) for card in context.shared(working_cards)])


def _card(context: CheckContext, card: ProofCard) -> CheckResult:
    request = {
        "device": card.device.index,
        "size": _SIZE,
        "host_size": _HOST_SIZE,
        "link": _link_words(context, card),
    }
    python = working_torch(context).python
    answer = ask_torch(context, python, "copies", request, limit_s=_LIMIT_S)
    try:
        rates = values_of(answer, MeasuredRates, card.label)
    except UndeterminedError as error:
        return unknown_result(str(error))
    return judge_bandwidth(card.label, card.device.name, rates, link_of(card, rates.link))


def _link_words(context: CheckContext, card: ProofCard) -> list[str]:
    if card.driver is None:
        return []
    try:
        return smi_words(context, "gpu", _LINK)
    except UndeterminedError:
        return []


def link_of(card: ProofCard, text: str | None) -> PcieLink:
    """The link of this GPU in what nvidia-smi printed under load."""
    for row in parse_rows(text or "", _LINK):
        if card.uuid is not None and row["uuid"] == card.uuid:
            return PcieLink(
                generation=number(row, "pcie.link.gen.current"),
                lanes=number(row, "pcie.link.width.current"),
                most_lanes=number(row, "pcie.link.width.max"),
            )
    return PcieLink(generation=None, lanes=None, most_lanes=None)


CHECK = proof("gpu_proof/bandwidth", "bandwidth of GPU memory and PCIe", _measure)
