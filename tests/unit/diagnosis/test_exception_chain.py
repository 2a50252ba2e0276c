# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.diagnosis.exception_chain import chains, root_of
from ci_doctor.diagnosis.traceback import tracebacks

DIRECT = "The above exception was the direct cause of the following exception:"
DURING = "During handling of the above exception, another exception occurred:"


def _one(exception: str) -> list[str]:
    return ["Traceback (most recent call last):", '  File "x.py", line 1, in f', exception]


def _root(words: str, first: str, second: str, points: tuple[int, int] = (60, 60)) -> str:
    """The exception that explains `second`, which follows `first` by `words`."""
    lines = [*_one(first), "", words, "", *_one(second)]
    (chain,) = chains(tracebacks(lines))
    by_index = dict(zip([2, 8], points, strict=True))
    return lines[root_of(chain, lines, lambda index: by_index[index]).exception]


def test_the_direct_cause_explains_what_was_raised_from_it() -> None:
    assert _root(DIRECT, "TypeError: None has no len()", "RuntimeError: no") == (
        "TypeError: None has no len()"
    )


def test_what_says_much_more_explains_even_its_direct_cause() -> None:
    second = "GatedRepoError: 401"
    assert _root(DIRECT, "HTTPError: x", second, (60, 90)) == second


@pytest.mark.parametrize("first", ["StopIteration", "KeyError: 'x'", "_queue.Empty"])
def test_an_exception_that_programs_expect_does_not_explain_the_next_one(first: str) -> None:
    assert _root(DURING, first, "ValueError: no such model") == "ValueError: no such model"


def test_an_unexpected_exception_explains_the_one_raised_while_it_was_handled() -> None:
    assert _root(DURING, "RuntimeError: a", "RuntimeError: b") == "RuntimeError: a"


def test_a_pointer_never_explains() -> None:
    pointer = "RuntimeError: failed. See root cause above."
    assert _root(DURING, "KeyError: 'x'", pointer) == "KeyError: 'x'"


def test_exceptions_without_a_link_are_chains_of_their_own() -> None:
    lines = [*_one("ValueError: a"), *_one("ValueError: b")]
    assert [len(chain) for chain in chains(tracebacks(lines))] == [1, 1]
