# SPDX-License-Identifier: Apache-2.0
"""Decides which exception of a chain explains the others. Pure."""

from collections.abc import Callable, Sequence

from ci_doctor.diagnosis.exception_line import exception_name
from ci_doctor.diagnosis.lines.writer_prefix import without_prefixes
from ci_doctor.diagnosis.traceback import ChainLink, Traceback

# From the index of an exception's line to the points of the rule that matches it.
Points = Callable[[int], int]

# `raise … from` names its cause, so a later exception must say much more to be preferred.
_MUCH_MORE = 15
# Python programs ask forgiveness: they try, catch one of these, and try something else. What fails
# then is what nobody had expected.
_OFTEN_EXPECTED = frozenset(
    {
        "KeyError",
        "AttributeError",
        "IndexError",
        "StopIteration",
        "StopAsyncIteration",
        "ImportError",
        "ModuleNotFoundError",
        "FileNotFoundError",
        "Empty",
        "CancelledError",
        "GeneratorExit",
        "KeyboardInterrupt",
    }
)


def chains(tracebacks: Sequence[Traceback]) -> list[list[Traceback]]:
    """The tracebacks by chain, each in the order in which the exceptions were raised."""
    by_exception: dict[int, list[Traceback]] = {}
    all_chains = []
    for traceback in sorted(tracebacks, key=lambda each: each.exception):
        chain = None
        if traceback.follows is not None:
            chain = by_exception.get(traceback.follows)
        if chain is None:
            chain = []
            all_chains.append(chain)
        chain.append(traceback)
        by_exception[traceback.exception] = chain
    return all_chains


def root_of(chain: Sequence[Traceback], lines: Sequence[str], points: Points) -> Traceback:
    """The traceback in `chain` whose exception explains the others.

    Of an exception raised from another the other explains it. Of one raised while another was
    handled it depends: the first, unless programs expect its kind or the later one says more.
    """
    root = chain[0]
    for later in chain[1:]:
        more = points(later.exception) - points(root.exception)
        if later.is_pointer:
            continue
        if later.link is ChainLink.DIRECT and not root.is_pointer:
            is_better = more >= _MUCH_MORE
        else:
            is_better = more > 0 or (more == 0 and _is_often_expected(lines[root.exception]))
        if is_better:
            root = later
    return root


def _is_often_expected(line: str) -> bool:
    text = without_prefixes(line).message.lstrip(" |")
    name = exception_name(text)
    return name is not None and name.rpartition(".")[2] in _OFTEN_EXPECTED
