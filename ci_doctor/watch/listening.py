# SPDX-License-Identifier: Apache-2.0
"""Reads from the kernel which processes of a script listen on which ports, by what has changed."""

import time
from collections.abc import Iterable

from ci_doctor.system.processes.listeners import holders, listening_ports
from ci_doctor.watch.judging import Listener, Process, may_have_served, named_ports
from ci_doctor.watch.tree import ScriptTree

# A socket may come before its process was seen.
_LOOKS = 3
# A listener of another job is looked for in all processes: that may take this share of a core.
_SHARE = 0.005


class Listening:
    """Who listens now. What listened when this was made is nobody's of the script."""

    def __init__(self) -> None:
        self.by_inode: dict[int, Listener] = {}
        self.is_known = True
        self._unowned: dict[int, int] = {}
        self._search_due = 0.0
        for inode, port in self._ports().items():
            self.by_inode[inode] = Listener(port=port, since=float("-inf"))

    def look(self, tree: ScriptTree, now: float) -> tuple[list[Listener], list[Listener]]:
        """The listeners that have come, once it is known whose they are, and those that have gone."""
        ports = self._ports()
        gone = [self.by_inode.pop(inode) for inode in self.by_inode.keys() - ports.keys()]
        come = []
        for inode in ports.keys() - self.by_inode.keys():
            self.by_inode[inode] = Listener(port=ports[inode], since=now)
            self._unowned[inode] = _LOOKS
        for inode in tuple(self._unowned):
            listener = self.by_inode.get(inode)
            if listener is None:
                del self._unowned[inode]
            elif self._search(tree, inode, listener, now):
                del self._unowned[inode]
                come.append(listener)
        return come, gone

    def _search(self, tree: ScriptTree, inode: int, listener: Listener, now: float) -> bool:
        """Whether it is known now whose the socket is: a process of the script, or none of them."""
        # Most processes are no servers: first those that name the port, then the youngest.
        able = [each for each in tree.living.values() if may_have_served(each)]
        naming = [each for each in able if listener.port in named_ports(each.words)]
        owner = _owner(tree, inode, naming)
        if owner is None:
            if now < self._search_due:
                return False
            began = time.thread_time()
            # `( sleep 2; exec server ) &` was a shell.
            tree.renew(each for each in tree.living.values() if not may_have_served(each))
            able = [each for each in tree.living.values() if may_have_served(each)]
            owner = _owner(tree, inode, sorted(able, key=lambda each: -each.born))
            self._search_due = now + (time.thread_time() - began) / _SHARE
            self._unowned[inode] -= 1
        if owner is not None:
            listener.owner = owner
            owner.ports.add(listener.port)
        return owner is not None or self._unowned[inode] <= 0

    def _ports(self) -> dict[int, int]:
        try:
            return listening_ports()
        except OSError:
            self.is_known = False
            return {}


def _owner(tree: ScriptTree, inode: int, processes: Iterable[Process]) -> Process | None:
    """The one that holds the socket: the topmost of a family, which has handed it down."""
    inodes = frozenset({inode})
    pid = next(holders((each.pid for each in processes), inodes), None)
    owner = None if pid is None else tree.living.get(pid)
    while owner is not None and owner.parent is not None and owner.parent.ended is None:
        if next(holders([owner.parent.pid], inodes), None) is None:
            break
        owner = owner.parent
    return owner
