# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: between fork and exec, in the guardian. Standard library only, as guardian_wire says."""

import errno
import os
import signal
from collections.abc import Iterator, Sequence

# What the guardian does not hear: it ends with ci-doctor, and not before.
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

CHDIR, EXEC = "chdir", "exec"


class Program:
    """What to run: `words` in `directory` with `environment`, all as bytes (which is what the kernel takes)."""

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
    deaf_to: frozenset[int] = frozenset(),
) -> tuple[int, int]:
    """Fork, and have the child run `program`; its pid, and a pipe that tells by `read_report` whether that went well.

    `streams` become its 0, 1 and 2; None is /dev/null. It leads a session of its own, or joins the process `group` of
    ours. Signals of `deaf_to` stay ignored. Raises OSError where there can be no further process, or no pipe.
    """
    report, told = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(report)
        os.close(told)
        raise
    if pid == 0:
        _become(program, streams, group, deaf_to, told)
    os.close(told)
    return pid, report


def read_report(report: int) -> tuple[str, int] | None:
    """Once `report` is readable: None where the program runs, else the step that failed and the errno. Closes it."""
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
    deaf_to: frozenset[int],
    told: int,
) -> None:
    """Never returns. Of our file descriptors only 0, 1 and 2, which are /dev/null, outlive exec: Python makes no others."""
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
        for signal_number in _RESTORED - deaf_to:
            signal.signal(signal_number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _execute(program)
    except OSError as error:
        os.write(told, f"{step} {error.errno or errno.EIO}".encode())
    except BaseException:  # noqa: BLE001 - no word at all, a NUL or "=" in the wrong place; nothing may get out of here
        os.write(told, f"{step} {errno.EINVAL}".encode())
    finally:
        os._exit(127)


def _execute(program: Program) -> None:
    """As execvpe(3) looks for it; the error of a file that is there tells more than that of one that is not."""
    telling: OSError | None = None
    for path in _candidates(program):
        try:
            os.execve(path, program.words, program.environment)  # noqa: S606 - no shell is wanted
        except (FileNotFoundError, NotADirectoryError) as error:
            telling = telling or error
        except PermissionError as error:
            telling = error
    raise telling or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _candidates(program: Program) -> Iterator[bytes]:
    word = program.words[0]
    if b"/" in word:
        yield word
        return
    for folder in program.environment.get(b"PATH", os.defpath.encode()).split(b":"):
        yield os.path.join(folder, word)  # noqa: PTH118 - bytes; an empty folder is the current one
