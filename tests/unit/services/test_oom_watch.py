# SPDX-License-Identifier: Apache-2.0
import signal

import pytest

from ci_doctor.services.oom_watch import OomWatch
from ci_doctor.system.processes.kernel_words import MemoryEvents


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The host's count of OOM kills: the last entry is what is read."""
    counts = [5]

    def read(_pid: object = "self") -> MemoryEvents:
        return MemoryEvents(unlimited=True, host_kills=counts[-1])

    monkeypatch.setattr(MemoryEvents, "read", read)
    return counts


def test_a_kill_after_the_counter_grew_is_the_oom_killer_s_and_counts_once(
    kills: list[int],
) -> None:
    watch = OomWatch()
    kills.append(6)

    first = watch.death(-signal.SIGKILL, 4096)
    second = watch.death(-signal.SIGKILL)

    assert (first.oom, first.host_oom, first.peak_rss) == ("the host", True, 4096)
    assert (second.oom, second.host_oom) == (None, False)


def test_another_end_is_not_the_oom_killer_s(kills: list[int]) -> None:
    watch = OomWatch()
    kills.append(6)

    assert watch.death(-signal.SIGTERM).oom is None
    assert watch.death(1).oom is None
