# SPDX-License-Identifier: Apache-2.0
"""Acts on other interpreters: an audit hook that records files, ports and hosts of each test.

It keeps what a file held before a test changed it, so that the caller can undo the run. It can also
refuse connections. The events are those of PEP 578.
"""

import errno
import json
import os
import socket
import stat
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set, Tuple

_LARGEST = 1 << 20
_WRITES = os.O_WRONLY | os.O_RDWR
# Read once: a test may change it.
_TEMPORARY = os.environ.get("TMPDIR", "/tmp")
# pytest makes its own folder for `tmp_path` anew in each run, and caches are no traces of a test.
_SKIPPED = (
    "/dev/",
    "/proc/",
    "/sys/",
    os.path.join(_TEMPORARY, "pytest-of-"),
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
)
_SKIPPED_PARTS = ("__pycache__", ".pytest_cache")


class Trace:
    """What the tests of a run opened for writing, bound and connected to."""

    def __init__(self, folder: "Optional[str]", own: "Optional[str]") -> None:
        self.folder = folder
        # In ours no test writes, but in its temporary directory, which lies there.
        self.own = None if own is None else own + os.sep
        self.test = ""
        self.is_paused = False
        self.is_refusing = False
        self.made: "Dict[str, str]" = {}  # path -> the test that made it
        self.changed: "Dict[str, Tuple[str, Optional[str]]]" = {}  # path -> the test, the copy
        self.bound: "List[Tuple[str, str, int]]" = []
        self.connected: "List[Tuple[str, str]]" = []
        self._own_ports: "Set[int]" = set()
        self._busy = threading.local()

    def __call__(self, event: str, arguments: "Tuple[Any, ...]") -> None:
        handler = _HANDLERS.get(event)
        if handler is None or self.is_paused or getattr(self._busy, "is_set", False):
            return
        self._busy.is_set = True
        try:
            handler(self, arguments)
        finally:
            self._busy.is_set = False

    def opened(self, arguments: "Tuple[Any, ...]") -> None:
        path, mode, flags = arguments
        is_write = isinstance(flags, int) and flags & _WRITES
        if is_write or (isinstance(mode, str) and set(mode) & set("wax+")):
            self.touched(path)

    def touched(self, path: "Any") -> None:
        """Note a path that is about to be made, changed or removed."""
        name = _absolute(path)
        if name is None or name in self.made or name in self.changed:
            return
        is_ours = self.own is not None and name.startswith(self.own)
        if is_ours and not name.startswith(_TEMPORARY + os.sep):
            return
        try:
            status = os.lstat(name)
        except OSError:
            self.made[name] = self.test
            return
        if stat.S_ISREG(status.st_mode):
            self.changed[name] = (self.test, self._copied(name, status))

    def _copied(self, name: str, status: os.stat_result) -> "Optional[str]":
        """The place of a copy of a small file, None for a large one."""
        if self.folder is None or status.st_size > _LARGEST:
            return None
        copy = os.path.join(self.folder, "before-%d" % len(self.changed))
        try:
            with open(name, "rb") as source, open(copy, "wb") as target:
                target.write(source.read())
        except OSError:
            return None
        return copy

    def moved(self, arguments: "Tuple[Any, ...]") -> None:
        self.touched(arguments[0])
        self.touched(arguments[1])

    def binds(self, arguments: "Tuple[Any, ...]") -> None:
        address = arguments[1]
        if isinstance(address, tuple) and len(address) >= 2:
            port = address[1]
            if isinstance(port, int) and port:
                self._own_ports.add(port)
                self.bound.append((self.test, str(address[0]), port))

    def connects(self, arguments: "Tuple[Any, ...]") -> None:
        address = arguments[1]
        if not isinstance(address, tuple) or len(address) < 2:
            return
        host, port = str(address[0]), address[1]
        if self._is_own(host, port):
            return
        self.connected.append((self.test, "%s:%s" % (host, port)))
        if self.is_refusing:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    def resolves(self, arguments: "Tuple[Any, ...]") -> None:
        host = arguments[0]
        if isinstance(host, bytes):
            host = host.decode("utf-8", "replace")
        if not host or host == "localhost" or _is_address(host):
            return
        self.connected.append((self.test, str(host)))
        if self.is_refusing:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    def _is_own(self, host: str, port: "Any") -> bool:
        """Whether this trial itself listens there: then it is no service from outside."""
        if not (host.startswith("127.") or host in {"::1", "localhost", "0.0.0.0", "::"}):
            return False
        return port in self._own_ports or port in _listening()

    def left(self) -> "Dict[str, str]":
        """The files that tests made and that still exist, with the test."""
        return {path: test for path, test in self.made.items() if os.path.lexists(path)}

    def remove(self, path: str) -> None:
        """Take away a file that this run made, or put back what it held."""
        if path in self.made:
            _removed(path)
        elif path in self.changed:
            put_back(path, self.changed[path][1])

    def write_undo(self, path: str) -> None:
        """Write down how to undo the run."""
        copies = {name: copy for name, (_, copy) in self.changed.items() if copy is not None}
        with open(path, "w") as file:
            json.dump({"made": list(self.made), "changed": copies}, file)


def _absolute(path: "Any") -> "Optional[str]":
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str):
        return None
    name = os.path.abspath(path)
    if name.startswith(_SKIPPED) or any(part in name for part in _SKIPPED_PARTS):
        return None
    return name


def _removed(path: str) -> None:
    import shutil

    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    except OSError:
        return


def put_back(path: str, copy: "Optional[str]") -> None:
    """Write what `copy` holds to `path`."""
    if copy is None:
        return
    try:
        with open(copy, "rb") as source, open(path, "wb") as target:
            target.write(source.read())
    except OSError:
        return


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return True
    return False


def _listening() -> "Set[int]":
    """The ports on which a process of this trial listens."""
    import _ci_doctor_state as state  # type: ignore[import-not-found]

    inodes = set()
    for pid in [os.getpid(), *state.processes()]:
        inodes |= _sockets(pid)
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in _lines(table)[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return ports


def _sockets(pid: int) -> "Set[str]":
    """The inodes of the sockets of a process."""
    inodes = set()
    try:
        for name in os.listdir("/proc/%d/fd" % pid):
            target = os.readlink("/proc/%d/fd/%s" % (pid, name))
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    except OSError:
        pass
    return inodes


def _lines(path: str) -> "List[str]":
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []


_HANDLERS = {
    "open": Trace.opened,
    "os.mkdir": lambda trace, arguments: trace.touched(arguments[0]),
    "os.remove": lambda trace, arguments: trace.touched(arguments[0]),
    "os.truncate": lambda trace, arguments: trace.touched(arguments[0]),
    "os.rename": Trace.moved,
    "os.link": Trace.moved,
    "os.symlink": Trace.moved,
    "sqlite3.connect": lambda trace, arguments: trace.touched(arguments[0]),
    "socket.bind": Trace.binds,
    "socket.connect": Trace.connects,
    "socket.getaddrinfo": Trace.resolves,
    "socket.gethostbyname": Trace.resolves,
}


def started(folder: "Optional[str]", own: "Optional[str]") -> Trace:
    """A trace that records from now on."""
    trace = Trace(folder, own)
    sys.addaudithook(trace)
    return trace
