# SPDX-License-Identifier: Apache-2.0
"""The rows of the picture about differences: their kind, their position, and passes. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median_low

from ci_doctor.correctness.report.clusters import within
from ci_doctor.correctness.report.differences import AnswerDifference
from ci_doctor.correctness.report.divergence import PositionUnit
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.results import Experiment
from ci_doctor.model.table import Row, row

_NAMED = 4
_EXACT_ULP = 100_000


def difference_rows(
    experiment: Experiment, differences: Sequence[AnswerDifference]
) -> Iterator[Row]:
    """What kind the differences are, where the first is, and whether passes of a start differ."""
    if differences:
        yield row("kind", _hardness_counts(differences))
    unit, positions = positions_of(differences)
    if positions:
        yield row("first at", f"{unit} {_spread(positions)}{_drift(differences)}")
    inside = within(experiment)
    if any(inside.values()):
        # The gate may hold them for the same.
        exactly = "" if experiment.comparison.is_exact else ", byte for byte"
        yield row("passes", f"requests that differ inside a start{exactly}: {_varying(inside)}")
    elif inside and differences:
        yield row("passes", "no request differs inside a start")


def _varying(inside: Mapping[str, int]) -> str:
    varying = []
    for name, count in inside.items():
        if count:
            word = f"{name} {count}"
            varying.append(word)
    shown = ", ".join(varying[:_NAMED])
    more = len(varying) - _NAMED
    if more > 0:
        return f"{shown} and {more} more starts"
    return shown


def _hardness_counts(differences: Sequence[AnswerDifference]) -> str:
    counts = Counter(difference.divergence.hardness for difference in differences)
    words = []
    for kind in Hardness:
        if counts[kind]:
            count = f"{counts[kind]} {kind}"
            words.append(count)
    text = ", ".join(words)
    if counts[Hardness.UNKNOWN] == len(differences):
        return f"{text}: with `logprobs` a request tells rounding from a fault"
    return text


def _spread(positions: Sequence[int]) -> str:
    first = positions[0]
    last = positions[-1]
    if first == last:
        return str(first)
    # `median_low`: a position that some answer has, and not the middle between two.
    median = median_low(positions)
    return f"{first} to {last}, median {median}"


def _drift(differences: Sequence[AnswerDifference]) -> str:
    """How far log-probabilities differed before the answers did: a sign that rounding adds up."""
    distances = []
    for difference in differences:
        at = difference.divergence
        # If numbers alone differ, `ulp` is the difference itself and not what came before it.
        if at.ulp is not None and at.hardness is not Hardness.NUMBERS:
            distances.append(at.ulp)
    if not distances:
        return ""
    return f"; log-probabilities up to {_steps(max(distances))} ULP apart before"


def _steps(ulp: int) -> str:
    """`3`, `6.3 million`: a large distance needs no digits."""
    return str(ulp) if ulp < _EXACT_ULP else f"{ulp / 1e6:.1f} million"


def positions_of(differences: Sequence[AnswerDifference]) -> tuple[PositionUnit, list[int]]:
    """The positions of the first differences, sorted, in the unit that most of them have."""
    tokens: list[int] = []
    characters: list[int] = []
    for difference in differences:
        at = difference.divergence
        if at.position is None:
            continue
        if at.unit is PositionUnit.TOKEN:
            tokens.append(at.position)
        else:
            characters.append(at.position)
    # Positions of two units have no common axis.
    if len(characters) > len(tokens):
        return PositionUnit.CHARACTER, sorted(characters)
    return PositionUnit.TOKEN, sorted(tokens)
