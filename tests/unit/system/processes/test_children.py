# SPDX-License-Identifier: Apache-2.0
import os
import subprocess

from ci_doctor.system.processes.children import ChildrenLook, NewestPid, children_of


def test_a_child_is_in_the_list_until_it_is_reaped() -> None:
    with subprocess.Popen(["sleep", "1000"]) as child:
        assert child.pid in children_of(os.getpid())
        assert child.pid in ChildrenLook(listed=False).of(os.getpid())
        child.kill()
    assert child.pid not in children_of(os.getpid())


def test_a_process_that_is_gone_has_no_children() -> None:
    assert children_of(2**22 + 1) == []


def test_the_newest_pid_can_be_read_again_after_it_was_closed() -> None:
    newest = NewestPid()
    assert newest.read() is not None
    newest.close()
    newest.close()
    assert newest.read() is not None
    newest.close()
