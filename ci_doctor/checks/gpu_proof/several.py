# SPDX-License-Identifier: Apache-2.0
"""Pure. One result of several: a proof is made on each GPU, and reported as one check."""

from collections.abc import Sequence

from ci_doctor.checks.check import CheckResult
from ci_doctor.model.table import Scalar


def combined(results: Sequence[CheckResult]) -> CheckResult:
    """All that the results say. Figures of more than one have its place first: `0_held_bytes`."""
    unknown = [result.unknown for result in results if result.unknown is not None]
    return CheckResult(
        summary="; ".join(result.summary for result in results),
        problems=tuple(problem for result in results for problem in result.problems),
        unknown="; ".join(unknown) or None,
        evidence=tuple(evidence for result in results for evidence in result.evidence),
        figures=_figures([result for result in results if result.figures]),
    )


def _figures(results: Sequence[CheckResult]) -> dict[str, Scalar]:
    if len(results) == 1:
        return dict(results[0].figures)
    figures: dict[str, Scalar] = {}
    for place, result in enumerate(results):
        for name, value in result.figures.items():
            figures[f"{place}_{name}"] = value
    return figures
