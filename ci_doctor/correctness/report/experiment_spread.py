# SPDX-License-Identifier: Apache-2.0
"""Reads the outputs of requests whose numbers differ, and measures how far they lie apart."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ci_doctor.correctness.report.differences import counted_results
from ci_doctor.correctness.report.number_spread import NumberSpread, number_spread, widest
from ci_doctor.correctness.results import Experiment
from ci_doctor.errors import InfraError


def spread_of_requests(experiment: Experiment, requests: Sequence[str]) -> NumberSpread | None:
    """The largest spread of these requests over all starts that count; None if none has numbers."""
    spreads = []
    for request in requests:
        spread = number_spread(_outputs(experiment, request))
        if spread is not None:
            spreads.append(spread)
    return widest(spreads) if spreads else None


def _outputs(experiment: Experiment, request: str) -> Iterator[Mapping[str, Any]]:
    """The different answers to a request; one that can no longer be read is left out."""
    # A dict, and not a set: the order of the starts.
    digests: dict[str, None] = {}
    for result in counted_results(experiment):
        digests.update(dict.fromkeys(result.digests.get(request, {}).values()))
    for digest in digests:
        try:
            yield experiment.outputs[digest]
        except (KeyError, InfraError):
            # The verdict was made from digests. It stands without the distance.
            continue
