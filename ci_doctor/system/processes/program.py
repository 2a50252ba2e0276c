# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a child of ours between fork and exec.

Standard library only, for the reason that `process_table` gives.
"""

import errno
import os
from collections.abc import Callable, Sequence

CHDIR = "chdir"
EXEC = "exec"


class Program:
    """What to run: `words` in `directory` with `environment`, as bytes, which the kernel takes.

    Without a `directory` it stays where we are.
    """

    __slots__ = ("directory", "environment", "words")

    def __init__(
        self, words: list[bytes], environment: dict[bytes, bytes], directory: bytes | None = None
    ) -> None:
        self.words = words
        self.environment = environment
        self.directory = directory


def start(
    program: Program, streams: Sequence[int | None], prepare: Callable[[], None]
) -> tuple[int, int]:
    """Fork, and have the child run `program`; return its pid, and a pipe for `read_report`.

    `streams` become its 0, 1 and 2; None is ours. `prepare` is called in the child before: for its
    session, its group and its signals. Raises OSError if there can be no further process, or no pipe.
    """
    report, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(report)
        os.close(writing)
        raise
    if pid == 0:
        _become(program, streams, prepare, writing)
    os.close(writing)
    return pid, report


def read_report(report: int) -> tuple[str, int] | None:
    """Once `report` is readable: None if the program runs, else the failed step and the errno.

    Closes the pipe. exec closes the other end without a word, since it is not inheritable.
    """
    text = os.read(report, 64).decode()
    os.close(report)
    if not text:
        return None
    step, number = text.split()
    return step, int(number)


def _become(
    program: Program,
    streams: Sequence[int | None],
    prepare: Callable[[], None],
    report: int,
) -> None:
    """Turn this process into `program`; never returns.

    Of our file descriptors only 0, 1 and 2 outlive exec: Python makes no other inheritable ones.
    """
    step = EXEC
    try:
        for number, descriptor in enumerate(streams):
            if descriptor is not None:
                os.dup2(descriptor, number)
        if program.directory is not None:
            step = CHDIR
            os.chdir(program.directory)
            step = EXEC
        prepare()
        os.execvpe(program.words[0], program.words, program.environment)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(report, f"{step} {error.errno or errno.EIO}".encode())
    except BaseException:  # noqa: BLE001 - no word at all, a NUL or "=" in the wrong place
        os.write(report, f"{step} {errno.EINVAL}".encode())
    finally:
        # Nothing may get out of here: above is our own code.
        os._exit(127)


_NAME = b"ci-doctor"
_PR_SET_NAME = 15  # linux/prctl.h


def show_as(words: bytes) -> None:
    """Let ps(1) and `pkill -f` see `words` in the place of our command line, as far as they fit.

    A script that ends every `python` on the machine must not end who stands beside it. The words lie
    where the kernel has put them (arg_start of proc_pid_stat(5)); Python has copies.
    """
    import ctypes

    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - standard library only
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
    except (OSError, ValueError, IndexError):
        return
    if 0 < start < end:
        # The last byte stays 0: behind another one the kernel would show the environment, too.
        shown = words[: end - start - 1].ljust(end - start, b"\0")
        ctypes.memmove(start, shown, len(shown))
        ctypes.CDLL(None).prctl(_PR_SET_NAME, _NAME, 0, 0, 0)
