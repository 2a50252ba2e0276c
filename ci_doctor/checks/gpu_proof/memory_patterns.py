# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs: writes patterns to their free memory and reads them back, as a load for ECC."""

from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, UndeterminedError, problem, unknown_result
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu_proof.cards import (
    ProofCard,
    used_memory,
    working_cards,
    working_torch,
)
from ci_doctor.checks.gpu_proof.ecc_counters import read_counters
from ci_doctor.checks.gpu_proof.program import ask_torch, values_of
from ci_doctor.checks.gpu_proof.rules import GPU_MEMORY_CORRUPT
from ci_doctor.checks.gpu_proof.several import combined
from ci_doctor.checks.gpu_proof.turn import proof
from ci_doctor.render.formatting import size

_LIMIT_S: Final = 120.0
# Of the free memory. A neighbour on the GPU must not run out of it because of us.
_SHARE_ALONE: Final = 0.8
_SHARE_BESIDE_OTHERS: Final = 0.25
# What a driver holds on a GPU that nobody uses.
_OWN_OF_DRIVER: Final = 2**30


class PatternTest(Struct, frozen=True, kw_only=True):
    """`tested` bytes, of which `wrong` words of 4 bytes came back otherwise."""

    tested: int
    wrong: int


def _measure(context: CheckContext) -> CheckResult:
    results = [_card(context, card) for card in context.shared(working_cards)]
    return combined([*results, _counting(context)])


def _card(context: CheckContext, card: ProofCard) -> CheckResult:
    python = working_torch(context).python
    request = {"device": card.device.index, "share": _share(context, card)}
    answer = ask_torch(context, python, "patterns", request, limit_s=_LIMIT_S)
    try:
        test = values_of(answer, PatternTest, card.label)
    except UndeterminedError as error:
        return unknown_result(str(error))
    return judge_patterns(card.label, test)


def judge_patterns(label: str, test: PatternTest) -> CheckResult:
    """What the test of the GPU `label` says."""
    if not test.tested:
        return unknown_result(f"{label} has less than 512 MiB to test")
    summary = f"{label}: {size(test.tested)} written and read back"
    figures = {"tested_bytes": test.tested, "wrong_words": test.wrong}
    if not test.wrong:
        return CheckResult(summary=summary, figures=figures)
    words = f"{summary}, {test.wrong} words of 4 bytes otherwise"
    corrupt = problem(GPU_MEMORY_CORRUPT, words)
    return CheckResult(summary=words, problems=(corrupt,), figures=figures)


def _share(context: CheckContext, card: ProofCard) -> float:
    try:
        used = used_memory(context, card)
    except UndeterminedError:
        return _SHARE_BESIDE_OTHERS
    return _SHARE_ALONE if used < _OWN_OF_DRIVER else _SHARE_BESIDE_OTHERS


def _counting(context: CheckContext) -> CheckResult:
    """Whether ECC counts at all; new errors are a problem by themselves (turn.py)."""
    try:
        counters = read_counters(context)
    except UndeterminedError as error:
        return unknown_result(f"the ECC counters cannot be read: {error}")
    if not counters:
        return unknown_result("the ECC counters cannot be read: nvidia-smi lists no GPU")
    enabled = [each for each in counters.values() if each.mode == "Enabled"]
    silent = [each.index for each in enabled if None in {each.corrected, each.uncorrected}]
    if silent:
        return unknown_result(
            f"the driver does not report the ECC errors of GPU {', '.join(map(str, silent))}"
        )
    counting = [each.index for each in enabled]
    if not counting:
        return CheckResult(summary="no GPU has ECC switched on")
    return CheckResult(summary=f"ECC counts on GPU {', '.join(counting)} of nvidia-smi")


CHECK = proof("gpu_proof/ecc", "memory under load and its ECC counters", _measure)
