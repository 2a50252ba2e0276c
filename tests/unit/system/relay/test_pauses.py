# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.system.relay.pauses import OutputPauses


def test_a_command_that_writes_a_character_at_a_time_is_read_with_pauses() -> None:
    pauses = OutputPauses()
    assert all(pauses.comes_after(count) for count in (1, 20, 25, 1, 80))


@pytest.mark.parametrize("count", [256, 4096, 131_072])
def test_no_pause_follows_a_large_piece(count: int) -> None:
    assert not OutputPauses().comes_after(count)


def test_a_large_piece_that_no_pause_held_up_leaves_the_pauses() -> None:
    pauses = OutputPauses()
    assert [pauses.comes_after(count) for count in (8192, 1)] == [False, True]


def test_a_command_that_writes_much_in_a_pause_is_read_without_pauses_for_a_while() -> None:
    pauses = OutputPauses()
    # A terminal holds 4 KiB: it was full, and the command waited for us.
    assert [pauses.comes_after(count) for count in (80, 4095)] == [True, False]
    following = [pauses.comes_after(80) for _ in range(2000)]
    assert following == [False] * 999 + [True] * 1001
