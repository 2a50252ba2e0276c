# SPDX-License-Identifier: Apache-2.0
"""What was read to prove that an arm's path ran, as values. Pure."""

from msgspec import Struct


class ProofReading(Struct, frozen=True, kw_only=True):
    """One condition of a start's proof, and what was read for it.

    Of a counter: its `metric` with the values `before` and `after` the requests (None if /metrics
    does not have it), and `above`, what the rise must exceed. `idle` is how far it rose between two
    readings while no request was under way, `unread`: the page before them could not be read. Of a `log` pattern: the 1-based
    `line` of the first match and its `text` (None if no line matches).
    """

    service: str
    met: bool
    metric: str | None = None
    before: float | None = None
    after: float | None = None
    above: float = 0.0
    idle: float = 0.0
    unread: bool = False
    log: str | None = None
    line: int | None = None
    text: str | None = None

    @property
    def subject(self) -> str:
        """The name of the counter, or the pattern between slashes."""
        return self.metric if self.metric is not None else f"/{self.log}/"

    def in_words(self) -> str:
        """`0 -> 128, rose by 128 (> 0)`, or the line that matches."""
        verdict = "" if self.met else "; not met"
        if self.metric is None:
            if self.line is None:
                return f"no line matches{verdict}"
            return f"line {self.line}: {self.text}{verdict}"
        if self.after is None:
            return f"absent{verdict}"
        # A counter with labels appears with its first count.
        before = self.before or 0.0
        first = "absent" if self.before is None else _number(before)
        rise = f"rose by {_number(self.after - before)} (> {_number(self.above)})"
        if self.idle > 0:
            rise = f"{rise}, and by {_number(self.idle)} without a request"
        return f"{first} -> {_number(self.after)}, {rise}{verdict}"


def _number(value: float) -> str:
    """Whole numbers in full: a counter of tokens has many digits."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:g}"
