# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: ends the process of a test or a collection that takes too long, also if it hangs in C.

The recorder says which test runs. A timer of the kernel wakes us when the first one would be overdue.
"""

import asyncio
import re
import signal
from pathlib import Path
from typing import Final

from ci_doctor.pytest_runs.records import RunRecord, read_records
from ci_doctor.pytest_runs.time_limit import (
    LoadingFile,
    RunningTest,
    StuckCollection,
    TimeLimitLook,
    loaded_file,
    look_at,
)
from ci_doctor.system import clock
from ci_doctor.system.processes.process_table import Kin
from ci_doctor.system.processes.tree import OwnTree
from ci_doctor.system.processes.tree_stop import send_signal, wait_for_all

# As in the recorder, which writes the stacks of all threads then.
_STACKS_SIGNAL: Final = signal.SIGPWR
_STACKS_S: Final = 0.25  # for the stacks to be written
_DEATH_S: Final = 5.0
_KILL_S: Final = 2.0
_MOST_STACKS: Final = 8192  # characters
_THREAD: Final = re.compile(r"^(?:Current thread|Thread) ", re.MULTILINE)


class HangingTests:
    """Ends tests that run for `limit_s` seconds, by the records in the file `record`.

    stacks: the begin of the paths where processes write what their threads do.

    A file that loads for `collection_s` seconds ends the run: no test can run without it.

    ended: by node id, after how many seconds. stacks: what its threads were doing. stuck: the file.
    """

    def __init__(
        self,
        record: Path,
        stacks: str,
        limit_s: float,
        tree: OwnTree,
        *,
        collection_s: float,
    ) -> None:
        self.ended: dict[str, float] = {}
        self.stuck: StuckCollection | None = None
        self.stacks: dict[str, str] = {}
        self._record = record
        self._stacks = stacks
        self._limit_s = limit_s
        self._collection_s = collection_s
        self._tree = tree
        self._records: list[RunRecord] = []
        self._offset = 0
        self._dead: set[int] = set()

    async def end_them_until(self, ended: "asyncio.Future[None]") -> None:
        """Watch until the run has `ended`."""
        while not ended.done():
            self._read()
            look = self._look()
            for file in look.stuck:
                if file.pid not in self._dead:
                    await self._end_all(file)
            for test in look.overdue:
                if test.pid not in self._dead:
                    await self._end(test)
            await asyncio.wait({ended}, timeout=max(0.0, look.next_look - clock.now()))

    def _look(self) -> TimeLimitLook:
        return look_at(self._records, self._limit_s, clock.now(), collection_s=self._collection_s)

    async def _end_all(self, file: LoadingFile) -> None:
        """Have the stacks written, and kill every process of the run."""
        self._dead.add(file.pid)
        process = self._process(file.pid)
        if process is None:
            return
        await self._ask_for_stacks(process)
        self._read()
        if file not in self._look().stuck:
            self._dead.discard(file.pid)
            return
        stack = self._main_stack(file.pid)
        self.stuck = StuckCollection(
            name=loaded_file(file, stack), limit_s=self._collection_s, stack=stack
        )
        self._tree.kill(_KILL_S)

    def _read(self) -> None:
        """Take what was written since the last look."""
        try:
            with self._record.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        self._records += read_records(whole).records

    async def _end(self, test: RunningTest) -> None:
        """Have the stacks written, and kill the process; never one that is not of this run."""
        self._dead.add(test.pid)
        process = self._process(test.pid)
        if process is None:
            return
        await self._ask_for_stacks(process)
        # It may have come to its end meanwhile.
        self._read()
        if test not in self._look().overdue:
            self._dead.discard(test.pid)
            return
        self.ended[test.test] = self._limit_s
        stack = self._main_stack(test.pid)
        if stack:
            self.stacks[test.test] = stack
        send_signal(process, signal.SIGKILL)
        await wait_for_all([process], _DEATH_S)

    def _process(self, pid: int) -> Kin | None:
        for kin in self._tree.living():
            if kin.pid == pid:
                return kin
        return None

    async def _ask_for_stacks(self, process: Kin) -> None:
        # The file is there once the process handles the signal, which would end it before.
        if self._stacks_of(process.pid).exists():
            send_signal(process, _STACKS_SIGNAL)
            await asyncio.sleep(_STACKS_S)

    def _stacks_of(self, pid: int) -> Path:
        return Path(f"{self._stacks}.{pid}")

    def _main_stack(self, pid: int) -> str:
        """What the main thread was doing; empty if the process did not write it."""
        try:
            text = self._stacks_of(pid).read_text(errors="replace")
        except OSError:
            return ""
        return main_thread(text)[:_MOST_STACKS]


def main_thread(text: str) -> str:
    """The stack of the main thread, which faulthandler writes last, the innermost call first. Pure."""
    starts = [match.start() for match in _THREAD.finditer(text)]
    return text[starts[-1] :] if starts else text
