# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of one diagnosis: which literals to look for, and which rules each one calls."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from ci_doctor.diagnosis.bounded_regex import BoundedRegex, Pattern, fields_of
from ci_doctor.diagnosis.log_rule import LogRule


class RuleSet:
    """House rules, and a repository's own, whose regexes are foreign ones of BoundedRegex."""

    def __init__(self, house: Sequence[LogRule], own: Sequence[LogRule] = ()) -> None:
        self.rules = (*house, *own)
        self._first_own = len(house)
        self._compiled: dict[int, Pattern] = {}
        self._compiled_next: dict[int, Pattern] = {}

    @property
    def own(self) -> tuple[LogRule, ...]:
        """Those of the repository."""
        return self.rules[self._first_own :]

    @cached_property
    def literals(self) -> tuple[bytes, ...]:
        """Every literal once, in a fixed order."""
        return tuple(self._rules_by_literal)

    @cached_property
    def rules_of(self) -> tuple[tuple[int, ...], ...]:
        """For each of `literals`, the indices in `rules` of those to try on a line with it."""
        return tuple(tuple(indices) for indices in self._rules_by_literal.values())

    @cached_property
    def _rules_by_literal(self) -> dict[bytes, list[int]]:
        by_literal: dict[bytes, list[int]] = {}
        for index, rule in enumerate(self.rules):
            for literal in rule.literals:
                by_literal.setdefault(literal.encode(), []).append(index)
        return by_literal

    def pattern(self, index: int) -> Pattern:
        """The regex of `rules[index]`, compiled when it is needed first."""
        # Most logs hold the literals of a few rules; compiling all would double the start.
        compiled = self._compiled.get(index)
        if compiled is None:
            compiled = self._compile(index, self.rules[index].regex)
            self._compiled[index] = compiled
        return compiled

    def next_line_pattern(self, index: int) -> Pattern | None:
        """The regex for the line below a hit of `rules[index]`; None if the hit names its own."""
        regex = self.rules[index].next_line
        if regex is None:
            return None
        compiled = self._compiled_next.get(index)
        if compiled is None:
            compiled = self._compile(index, regex)
            self._compiled_next[index] = compiled
        return compiled

    def _compile(self, index: int, regex: str) -> Pattern:
        return BoundedRegex(regex, is_foreign=index >= self._first_own)

    def matching(
        self, indices: Iterable[int], texts: Sequence[str]
    ) -> list[tuple[int, dict[str, str]]]:
        """Those rules among `indices` whose regex is in one of `texts`.

        With each come the named groups of its first match, without empty ones.
        """
        matches = []
        for index in indices:
            pattern = self.pattern(index)
            for text in texts:
                match = pattern.search(text)
                if match is not None:
                    matches.append((index, fields_of(match)))
                    break
        return matches
