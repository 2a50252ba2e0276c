# SPDX-License-Identifier: Apache-2.0
"""The process: `python -m ci_doctor` and the console script.

The only place that exits, and the last resort.
"""

# Loaded by every start of Python: a signal may arrive while the modules below are.
import _signal  # type: ignore[import-not-found] # typeshed knows only what wraps it
import os
import sys

_NAMES = {
    _signal.SIGINT: "interrupted (SIGINT)",
    _signal.SIGTERM: "terminated (SIGTERM)",
    _signal.SIGHUP: "terminated (SIGHUP)",
    _signal.SIGQUIT: "terminated (SIGQUIT)",
}


def _end(number: int, _frame: object) -> None:
    """End at once: nothing has been started, and what raises in an import may be swallowed there."""
    code = 128 + (_signal.SIGINT if number == _signal.SIGINT else _signal.SIGTERM)
    try:
        _tell_shell(code)
        os.write(2, f"error: {_NAMES[number]}\n".encode())
    finally:
        os._exit(code)


def _tell_shell(code: int) -> None:
    """A shell that evaluates our output must not take an empty one for success."""
    try:
        from ci_doctor.commands.exports_output import print_failing_statement

        print_failing_statement(sys.argv[1:], code)
        sys.stdout.flush()
    # Of modules that are half loaded, any error may come.
    except Exception:  # noqa: BLE001
        if "setup-env" in sys.argv and "--json" not in sys.argv:
            os.write(1, f"(exit {code})\n".encode())


for _number in _NAMES:
    # Whoever started us with one ignored wants it to stay so.
    if _signal.getsignal(_number) in (_signal.SIG_DFL, _signal.default_int_handler):
        try:
            _signal.signal(_number, _end)
        except ValueError:  # imported by a thread of another program
            break

import codecs  # noqa: E402
import contextlib  # noqa: E402
import errno  # noqa: E402
import gc  # noqa: E402
import io  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import NoReturn  # noqa: E402

# Containers made, less those freed, between two collections. With Python's 700 the collector takes a tenth of a start,
# looking through modules that stay anyway.
_GARBAGE_THRESHOLD = 20_000


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    argv = sys.argv[1:]
    gc.set_threshold(_GARBAGE_THRESHOLD)
    _search_standard_library_first()
    _open_closed_streams()
    _show_signs()
    try:
        from ci_doctor import cli

        code = cli.main(argv, is_guarded=True)
    # What comes up to here has passed the error boundary, or came before it.
    except BaseException as error:  # noqa: BLE001
        code = _last_resort(error, argv)
    _flush()
    # Not sys.exit: taking the interpreter down costs 20 ms, and a death must be reported within 50.
    os._exit(code)


def _search_standard_library_first() -> None:
    """Put the standard library before the job's directories on sys.path.

    A `random.py` in PYTHONPATH would end ci-doctor before it can name it.
    """
    library = os.path.dirname(os.__file__)  # noqa: PTH120 - before pathlib
    first = [path for path in sys.path if path == library or path.endswith("lib-dynload")]
    sys.path[:] = first + [path for path in sys.path if path not in first]


def _open_closed_streams() -> None:
    """Open the null device for each of stdin, stdout and stderr that is closed.

    Else the next file that we open gets its number, and what we start writes into it. Python's own
    streams stay None, which tells that nobody reads what goes there.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest number that is free: this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


# What a locale without our signs shows in their place.
_IN_ASCII = str.maketrans(
    {"✓": "+", "✗": "x", "…": "...", "–": "-", "·": "-", "│": "|", "≠": "!=", "∅": "0", "○": "o",
     "→": "->", "×": "x", "≥": ">=", "≤": "<=", "—": "-", "┌": ",", "└": "`", "├": "|", "─": "-"}
)  # fmt: skip


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """A handler of codecs: our signs as ASCII, and the number of every other character."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_IN_ASCII)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def _show_signs() -> None:
    """Make stdout and stderr print every text, whatever the locale of the job is."""
    codecs.register_error("ci_doctor", _in_ascii)
    # The logs of these three are UTF-8; a job without a locale prints into them, too.
    is_log = any(name in os.environ for name in ("BUILDKITE", "GITHUB_ACTIONS", "GITLAB_CI"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if is_log:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
            else:
                stream.reconfigure(errors="ci_doctor")


def _last_resort(error: BaseException, argv: Sequence[str]) -> int:
    """Print what happened, with the standard library alone.

    A broken installation must not end with 1, or without a word.
    """
    if isinstance(error, KeyboardInterrupt):
        _end(_signal.SIGINT, None)
    code, message, hint = _judged(error)
    # Nothing is left to catch what this raises, and 1 would say that the change is at fault.
    with contextlib.suppress(Exception):
        from ci_doctor.commands.exports_output import print_failing_statement

        print_failing_statement(argv, code)
    with contextlib.suppress(Exception):
        import traceback

        traceback.print_exception(error)
    if sys.stderr is not None:
        sys.stderr.write(f"error: {message}\n  hint: {hint}\n")
    return code


def _judged(error: BaseException) -> tuple[int, str, str]:
    """The exit code, what happened and what to do."""
    broken = ("ci-doctor is broken, or its installation is", "install it again")
    try:
        from ci_doctor.errors import shortage
        from ci_doctor.model.exit_code import ExitCode

        lacking = shortage(error)
    except Exception as another:  # noqa: BLE001 - nothing of ours can be loaded any more
        for each in (error, another):
            if isinstance(each, MemoryError) or "map segment" in str(each):
                return os.EX_TEMPFAIL, "no memory is left", "free memory, or raise `ulimit -v`"
            if isinstance(each, OSError) and each.errno == errno.EMFILE:
                return os.EX_TEMPFAIL, "ci-doctor may open no more files", "raise `ulimit -n`"
        return os.EX_SOFTWARE, *broken
    code = getattr(error, "code", ExitCode.BUG)
    if not isinstance(code, ExitCode):
        code = ExitCode.BUG
    if code is ExitCode.BUG and lacking is not None:
        return int(ExitCode.INFRA), *lacking
    return int(code), *broken


def _flush() -> None:
    """What cannot be written, as the reader is gone or the disk is full, is known by now."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # ValueError: closed
            if stream is not None:
                stream.flush()


if __name__ == "__main__":
    main()
