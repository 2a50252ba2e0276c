# SPDX-License-Identifier: Apache-2.0
"""What the failed attempts of a probe have shown, and which of it is the cause to report. Pure."""

from enum import IntEnum

from msgspec import Struct


class Telling(IntEnum):
    """How much an answer says about the cause, least first."""

    # Nobody is there: refused, no address, no such file.
    ABSENT = 0
    # Somebody is there, and did not answer in time.
    SILENT = 1
    # Something came: a status, a body, an exit code, a line of a log.
    ANSWERED = 2


class ProbeAnswer(Struct, frozen=True, kw_only=True):
    """Why one attempt failed.

    `cut`: the end of the whole time left the attempt less than its own, so its silence says little.
    """

    text: str
    telling: Telling = Telling.ANSWERED
    cut: bool = False


class AnswersSoFar:
    """Takes every failed attempt, in order."""

    def __init__(self) -> None:
        # Of each kind the latest: a service may get further with every second.
        self._latest: dict[Telling, ProbeAnswer] = {}
        self._last: ProbeAnswer | None = None

    def add(self, answer: ProbeAnswer) -> None:
        """Take note of an attempt. A cut one replaces none that had its full time."""
        self._last = answer
        if not answer.cut or answer.telling not in self._latest:
            self._latest[answer.telling] = answer

    def cause(self) -> str:
        """The most telling answer; then what became of it, if that was another one at last."""
        last = self._last
        if last is None:
            return ""
        best = self._latest[max(self._latest)]
        if best.cut:
            return self._of_cut(best)
        if last.telling >= best.telling or last.cut:
            return best.text
        return f"{best.text}; at last: {last.text}"

    def _of_cut(self, best: ProbeAnswer) -> str:
        absent = self._latest.get(Telling.ABSENT)
        if absent is None:
            return best.text
        return f"{absent.text}; at last somebody was there, with {best.text}"
