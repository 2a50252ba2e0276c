# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs: copies from each to each other one, and compares what arrives."""

import shutil
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu_proof.cards import ProofCard, working_cards, working_torch
from ci_doctor.checks.gpu_proof.driver import number, smi_output
from ci_doctor.checks.gpu_proof.peer_judgement import PeerCopy, judge_peers
from ci_doctor.checks.gpu_proof.program import ask_torch, values_of
from ci_doctor.checks.gpu_proof.topology import Connections, parse_topology
from ci_doctor.checks.gpu_proof.turn import proof

_LIMIT_S: Final = 120.0
_SIZE: Final = 64 * 2**20


class _Pairs(Struct, frozen=True, kw_only=True):
    pairs: tuple[PeerCopy, ...]


def _measure(context: CheckContext) -> CheckResult:
    cards = context.shared(working_cards)
    if len(cards) < 2:
        return CheckResult(summary=f"{cards[0].label} is the only one, so it has no peer")
    python = working_torch(context).python
    request = {"devices": [card.device.index for card in cards], "size": _SIZE}
    answer = ask_torch(context, python, "peers", request, limit_s=_LIMIT_S)
    copies = values_of(answer, _Pairs, "copies between GPUs").pairs
    return judge_peers(copies, _connections(context), _numbers(cards))


def _connections(context: CheckContext) -> Connections:
    program = shutil.which("nvidia-smi", path=context.environ.get("PATH", ""))
    if program is None:
        return {}
    try:
        return parse_topology(smi_output(context, [program, "topo", "-m"]))
    except UndeterminedError:
        return {}


def _numbers(cards: tuple[ProofCard, ...]) -> dict[int, int]:
    """The number of nvidia-smi for each of torch."""
    numbers = {}
    for card in cards:
        if card.driver is not None:
            of_driver = number(card.driver, "index")
            if of_driver is not None:
                numbers[card.device.index] = of_driver
    return numbers


CHECK = proof("gpu_proof/peers", "peer access and copies between GPUs", _measure)
