# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether GPUs exchange their memory as their connections promise."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, Problem, problem
from ci_doctor.checks.gpu_proof.rules import PEER_ACCESS_MISSING, PEER_COPY_WRONG
from ci_doctor.checks.gpu_proof.topology import Connections, is_nvlink
from ci_doctor.model.finding import Evidence
from ci_doctor.model.rule import Rule
from ci_doctor.model.table import Scalar
from ci_doctor.render.formatting import rate

# A machine of eight GPUs has 56 pairs.
_MOST_SHOWN: Final = 8


class PeerCopy(Struct, frozen=True, kw_only=True):
    """A copy from GPU `source` to GPU `target` of torch; `rate` in bytes a second."""

    source: int
    target: int
    has_access: bool
    is_equal: bool
    rate: float


def judge_peers(
    copies: Sequence[PeerCopy], connections: Connections, numbers: Mapping[int, int]
) -> CheckResult:
    """What the copies say. `numbers`: the index of nvidia-smi for an index of torch, where known."""
    wrong = [copy for copy in copies if not copy.is_equal]
    without = [copy for copy in copies if not copy.has_access]
    on_nvlink = [copy for copy in copies if is_nvlink(_connection(copy, connections, numbers))]
    missing = [copy for copy in without if copy in on_nvlink]
    problems = [
        *_problems(wrong, "a copy arrived with other bytes", PEER_COPY_WRONG),
        *_problems(missing, "NVLink, and no peer access", PEER_ACCESS_MISSING),
    ]
    rates = [copy.rate for copy in copies]
    summary = (
        f"{len(copies) - len(without)} of {len(copies)} pairs of GPUs have peer access, "
        f"{len(on_nvlink)} NVLink; copies run at {rate(min(rates))} to {rate(max(rates))}"
    )
    # Without its connection it is known that a pair has no access, and not whether it should.
    unknown = None
    if any(_connection(copy, connections, numbers) is None for copy in without):
        unknown = "`nvidia-smi topo -m` does not say which GPUs are connected by NVLink"
    return CheckResult(
        summary=summary, problems=tuple(problems), unknown=unknown, figures=_figures(copies)
    )


def _connection(copy: PeerCopy, connections: Connections, numbers: Mapping[int, int]) -> str | None:
    if copy.source not in numbers or copy.target not in numbers:
        return None
    return connections.get((numbers[copy.source], numbers[copy.target]))


def _problems(copies: Sequence[PeerCopy], words: str, rule: Rule) -> list[Problem]:
    """One problem for all pairs: a fault of the machine hits many of them."""
    if not copies:
        return []
    pairs = [f"GPU {copy.source} to {copy.target}" for copy in copies]
    shown = ", ".join(pairs[:_MOST_SHOWN])
    if len(pairs) > _MOST_SHOWN:
        shown += f" and {len(pairs) - _MOST_SHOWN} more"
    return [problem(rule, f"{words}: {shown}", evidence=(Evidence(excerpt=", ".join(pairs)),))]


def _figures(copies: Sequence[PeerCopy]) -> dict[str, Scalar]:
    figures: dict[str, Scalar] = {}
    for copy in copies:
        figures[f"gpu{copy.source}_to_gpu{copy.target}_bytes_per_s"] = round(copy.rate)
    return figures
