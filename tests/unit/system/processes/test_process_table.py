# SPDX-License-Identifier: Apache-2.0
import os
import subprocess

import pytest

from ci_doctor.system.processes.process_table import (
    ChildrenLook,
    Kin,
    NewestPid,
    children_of,
    descendants,
    look_up,
    parse_stat,
    read_table,
)


def kin(pid: int, parent: int) -> Kin:
    return Kin(pid=pid, parent=parent, started=0, state="S", threads=1, name=f"p{pid}")


TABLE = [kin(1, 0), kin(10, 1), kin(11, 10), kin(12, 11), kin(13, 10), kin(20, 1), kin(21, 20)]


def test_a_name_may_hold_spaces_and_parentheses() -> None:
    row = parse_stat(
        f"42 (a) b (c)) Z 7 41 40 0 -1 4 1 0 0 0 0 0 0 0 20 0 3 0 5555{29 * ' 1'} 256 0"
    )
    assert (row.identity, row.name, row.parent) == ((42, 5555), "a) b (c)", 7)
    assert (row.group, row.session, row.flags) == (41, 40, 4)
    assert (row.state, row.threads, row.status, row.ended) == ("Z", 3, 256, False)


def test_descendants_are_found_at_every_depth() -> None:
    assert {row.pid for row in descendants(TABLE, 10, frozenset())} == {11, 12, 13}


def test_a_bystander_and_what_is_below_it_are_left_out() -> None:
    assert {row.pid for row in descendants(TABLE, 10, frozenset({(11, 0)}))} == {13}


def test_a_later_process_with_the_pid_of_a_bystander_is_no_bystander() -> None:
    assert {row.pid for row in descendants(TABLE, 10, frozenset({(11, 99)}))} == {11, 12, 13}


@pytest.mark.parametrize(
    ("state", "threads", "ended"),
    [("S", 1, False), ("Z", 1, True), ("Z", 2, False), ("D", 1, False)],
)
def test_a_leader_that_left_threads_running_has_not_ended(
    state: str, threads: int, ended: bool
) -> None:
    assert Kin(pid=1, parent=0, started=0, state=state, threads=threads, name="x").ended is ended


def test_this_process_is_in_the_table() -> None:
    me = look_up(os.getpid())
    assert me is not None
    assert me.parent == os.getppid()
    assert me.identity in {row.identity for row in read_table()}


def test_a_pid_that_nobody_has_is_none() -> None:
    assert look_up(2**22 + 1) is None


def test_a_child_is_in_the_list_until_it_is_reaped() -> None:
    with subprocess.Popen(["sleep", "1000"]) as child:
        assert child.pid in children_of(os.getpid())
        for listed in (True, False):
            assert child.pid in ChildrenLook(listed=listed).of(os.getpid())
        child.kill()
    assert child.pid not in children_of(os.getpid())
    assert children_of(child.pid) == []


def test_the_newest_pid_tells_of_a_birth_and_can_be_read_again_after_it_was_closed() -> None:
    newest = NewestPid()
    before = newest.read()
    assert before is not None
    subprocess.run(["true"], check=True)
    assert newest.read() != before
    newest.close()
    newest.close()
    assert newest.read() is not None
    newest.close()
