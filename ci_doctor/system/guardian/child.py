# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: the guardian's child between fork and exec.

Standard library only, for the reason that `wire` gives.
"""

import errno
import os
import signal
from collections.abc import Iterator, Sequence

# What the guardian ignores: it ends with ci-doctor, and not before.
IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)
_RESTORED = frozenset({*IGNORED, signal.SIGXFSZ, signal.SIGCHLD})  # Python itself ignores SIGXFSZ

CHDIR = "chdir"
EXEC = "exec"


class Program:
    """What to run: `words` in `directory` with `environment`, as bytes, which the kernel takes."""

    __slots__ = ("directory", "environment", "words")

    def __init__(
        self, words: list[bytes], environment: dict[bytes, bytes], directory: bytes
    ) -> None:
        self.words = words
        self.environment = environment
        self.directory = directory


def start(
    program: Program,
    streams: Sequence[int | None],
    *,
    group: int | None = None,
    stay_ignored: frozenset[int] = frozenset(),
) -> tuple[int, int]:
    """Fork, and have the child run `program`; return its pid, and a pipe for `read_report`.

    `streams` become its 0, 1 and 2; None is /dev/null. It leads a session of its own, or joins the
    process `group` of ours. Signals of `stay_ignored` stay ignored. Raises OSError if there can be
    no further process, or no pipe.
    """
    report, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(report)
        os.close(writing)
        raise
    if pid == 0:
        _become(program, streams, group, stay_ignored, writing)
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
    group: int | None,
    stay_ignored: frozenset[int],
    report: int,
) -> None:
    """Turn this process into `program`; never returns.

    Of our file descriptors only 0, 1 and 2 (/dev/null) outlive exec: Python makes no other
    inheritable ones.
    """
    step = EXEC
    try:
        if group is None:
            os.setsid()
        else:
            os.setpgid(0, group)
        for number, descriptor in enumerate(streams):
            if descriptor is not None:
                os.dup2(descriptor, number)
        step = CHDIR
        os.chdir(program.directory)
        step = EXEC
        # An ignored signal stays ignored across exec, a handler does not (execve(2)).
        for signal_number in _RESTORED - stay_ignored:
            signal.signal(signal_number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _execute(program)
    except OSError as error:
        os.write(report, f"{step} {error.errno or errno.EIO}".encode())
    except BaseException:  # noqa: BLE001 - no word at all, a NUL or "=" in the wrong place
        os.write(report, f"{step} {errno.EINVAL}".encode())
    finally:
        # Nothing may get out of here: above is the guardian's own code.
        os._exit(127)


def _execute(program: Program) -> None:
    """Look for the program as execvpe(3) does; returns only by raising OSError.

    The error of a file that is there is more useful than that of one that is not.
    """
    failure: OSError | None = None
    for path in _candidates(program):
        try:
            os.execve(path, program.words, program.environment)  # noqa: S606 - no shell is wanted
        except (FileNotFoundError, NotADirectoryError) as error:
            failure = failure or error
        except PermissionError as error:
            failure = error
    raise failure or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _candidates(program: Program) -> Iterator[bytes]:
    word = program.words[0]
    if b"/" in word:
        yield word
        return
    path = program.environment.get(b"PATH", os.defpath.encode())
    for folder in path.split(b":"):
        yield os.path.join(folder, word)  # noqa: PTH118 - bytes; an empty folder is the current one
