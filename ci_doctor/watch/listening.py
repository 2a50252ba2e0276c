# SPDX-License-Identifier: Apache-2.0
"""Reads from the kernel which processes of a script listen on which ports, by what has changed."""

from ci_doctor.system.processes.listeners import holders, listening_ports
from ci_doctor.watch.judging import Listener, Process, named_ports
from ci_doctor.watch.tree import ScriptTree

# A socket may come before its process was seen.
_LOOKS = 3


class Listening:
    """Who listens now. What listened when this was made is nobody's of the script."""

    def __init__(self) -> None:
        self.by_inode: dict[int, Listener] = {}
        self.is_known = True
        self._unowned: dict[int, int] = {}
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
            left = self._unowned[inode] - 1
            if listener is None:
                del self._unowned[inode]
                continue
            listener.owner = _owner(tree, inode, listener.port)
            if listener.owner is not None:
                listener.owner.ports.add(listener.port)
            if listener.owner is not None or not left:
                del self._unowned[inode]
                come.append(listener)
            else:
                self._unowned[inode] = left
        return come, gone

    def _ports(self) -> dict[int, int]:
        try:
            return listening_ports()
        except OSError:
            self.is_known = False
            return {}


def _owner(tree: ScriptTree, inode: int, port: int) -> Process | None:
    """The process that holds the socket: the topmost of a family, which has handed it down."""
    inodes = frozenset({inode})
    # Most processes are no servers: first those that name the port, then the youngest.
    order = sorted(
        tree.living.values(), key=lambda each: (port not in named_ports(each.words), -each.born)
    )
    pid = next(holders((each.pid for each in order), inodes), None)
    owner = None if pid is None else tree.living.get(pid)
    while owner is not None and owner.parent is not None and owner.parent.ended is None:
        if next(holders([owner.parent.pid], inodes), None) is None:
            break
        owner = owner.parent
    return owner
