# SPDX-License-Identifier: Apache-2.0
"""Acts on files: starts that run at once are launched together, and send their requests in turn.

To become ready takes most of a start, and shows little of what both arms reach. The requests are
sent to one start after the other. So what changes meanwhile is the work of one start, the other one
is idle, and an answer that it takes from there later is noticed.
"""

import asyncio
from collections.abc import Mapping, Sequence

from ci_doctor.correctness.shared_places import SharedPlaces, SharedWatch, now_ns
from ci_doctor.correctness.shared_use import SharedUse

# The kernel's clock of files lags by a tick (10 ms at 100 Hz): what changed before is not the next one's.
_TICK_S = 0.05


class StartWave:
    """The starts that run at once, by the letter of their arm and their name; one may be alone.

    `marks` are texts in the environment of their processes, by name. `shared` is None if the arms
    share everything by request. Made and used inside a running event loop.
    """

    def __init__(
        self,
        starts: Sequence[tuple[str, str]],
        marks: Mapping[str, str],
        shared: SharedPlaces | None,
    ) -> None:
        self._starts = tuple(starts)
        self._shared = shared
        self._watch = SharedWatch(marks)
        self._is_launched = [asyncio.Event() for _ in starts]
        self._has_ended = [asyncio.Event() for _ in starts]
        self._begun_ns = now_ns()
        self._turns_ns: dict[int, int] = {}
        # When each was about to get its first request.
        self._answering_ns: dict[int, int] = {}
        self._at_launch: list[str] | None = None
        if len(starts) == 1:
            self._turns_ns[0], self._at_launch = self._begun_ns, []

    def begin(self) -> None:
        """Watch what earlier starts of the other arm wrote, before anything is started."""
        for place in range(len(self._starts)):
            self._lease(place)

    async def turn(self, place: int) -> None:
        """Returns once all are ready or have failed, and those before this one have ended."""
        self._is_launched[place].set()
        for event in (*self._is_launched, *self._has_ended[:place]):
            await event.wait()
        await asyncio.sleep(_TICK_S)
        if place not in self._turns_ns:
            self._note_launch()
            self._turns_ns[place] = now_ns()
            await asyncio.sleep(_TICK_S)
            self._lease(place)
        self._answering_ns[place] = now_ns()

    async def settle(self) -> None:
        """Wait until it is known who has opened what."""
        await self._watch.settle()

    def end(self, place: int) -> SharedUse:
        """The start has ended, and what it did with files; the turn of the next one begins."""
        self._is_launched[place].set()
        self._has_ended[place].set()
        if self._shared is None:
            return SharedUse()
        arm, name = self._starts[place]
        written = []
        if place in self._turns_ns:
            written = self._shared.note_written(
                arm, name, self._turns_ns[place], self._answering_ns.get(place)
            )
        elif all(event.is_set() for event in self._has_ended):
            # None had a turn before.
            self._note_launch()
        changed = sorted({*written, *(self._at_launch or [])})
        opened = {**self._watch.read[name], **self._shared.used_of_others(arm, written)}
        reads = self._shared.reads(arm, name, opened)
        return self._watch.use(changed, reads, self._shared.unseen)

    def give_back(self) -> None:
        """Watch nothing any more; every process of the starts has ended."""
        self._watch.give_back()

    def _note_launch(self) -> None:
        if self._at_launch is None:
            self._at_launch = []
            if self._shared is not None:
                self._at_launch = self._shared.note_launched(self._starts, self._begun_ns)

    def _lease(self, place: int) -> None:
        if self._shared is not None:
            arm, name = self._starts[place]
            self._watch.watch(name, self._shared.watched_by(arm))
