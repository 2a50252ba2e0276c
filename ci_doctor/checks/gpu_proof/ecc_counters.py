# SPDX-License-Identifier: Apache-2.0
"""Reads the counters of memory errors that the driver keeps, and judges how they grew."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import Problem, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu_proof.driver import number, query
from ci_doctor.checks.gpu_proof.rules import ECC_CORRECTED, ECC_UNCORRECTED

# "Volatile": since the driver was loaded.
_CORRECTED: Final = "ecc.errors.corrected.volatile.total"
_UNCORRECTED: Final = "ecc.errors.uncorrected.volatile.total"
_FIELDS: Final = ("uuid", "index", "ecc.mode.current", _CORRECTED, _UNCORRECTED)


class EccCounters(Struct, frozen=True, kw_only=True):
    """The counters of one GPU; `mode` is what the driver calls it, None for a GPU without ECC."""

    index: str
    mode: str | None
    corrected: int | None
    uncorrected: int | None


def read_counters(context: CheckContext) -> Mapping[str, EccCounters]:
    """The counters by UUID. Raises UndeterminedError if nvidia-smi gives no answer."""
    counters = {}
    for row in query(context, "gpu", _FIELDS):
        counters[row["uuid"] or ""] = EccCounters(
            index=row["index"] or "?",
            mode=row["ecc.mode.current"],
            corrected=number(row, _CORRECTED),
            uncorrected=number(row, _UNCORRECTED),
        )
    return counters


def counters_or_none(context: CheckContext) -> Mapping[str, EccCounters] | None:
    """As `read_counters`, and None if nvidia-smi gives no answer."""
    try:
        return read_counters(context)
    except UndeterminedError:
        return None


def new_errors(
    before: Mapping[str, EccCounters], after: Mapping[str, EccCounters], occasion: str
) -> tuple[Problem, ...]:
    """A problem for each counter that grew between two readings; `occasion` says when, as a clause.

    A counter that is absent in one of them says nothing.
    """
    problems = []
    for uuid, later in after.items():
        earlier = before.get(uuid)
        if earlier is None:
            continue
        name = f"GPU {later.index} of nvidia-smi"
        grown = _growth(earlier.uncorrected, later.uncorrected)
        if grown > 0:
            problems.append(
                problem(ECC_UNCORRECTED, f"{name}: {grown} new uncorrected ECC errors {occasion}")
            )
        grown = _growth(earlier.corrected, later.corrected)
        if grown > 0:
            problems.append(
                problem(ECC_CORRECTED, f"{name}: {grown} new corrected ECC errors {occasion}")
            )
    return tuple(problems)


def _growth(before: int | None, after: int | None) -> int:
    if before is None or after is None:
        return 0
    return after - before
