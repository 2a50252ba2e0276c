# SPDX-License-Identifier: Apache-2.0
"""Reads the locale of the job: whether it is installed, and which encoding Python takes from it."""

from collections.abc import Mapping

from ci_doctor.checks.check import CheckResult, DoctorCheck, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.rules import LOCALE_MISSING, LOCALE_NOT_UTF8
from ci_doctor.model.finding import ShellCommand

# Always there; with them Python takes UTF-8 by itself (PEP 538, PEP 540).
_PLAIN = frozenset({"", "C", "POSIX"})
_CATEGORIES = (
    "LC_CTYPE",
    "LC_NUMERIC",
    "LC_TIME",
    "LC_COLLATE",
    "LC_MONETARY",
    "LC_MESSAGES",
)
# langinfo.h and locale.h of glibc
_CODESET = 14
_ALL_MASK = 0x1FBF


def _run(context: CheckContext) -> CheckResult:
    problems = []
    for variable, name in named_locales(context.environ).items():
        if name not in _PLAIN and codeset_of(name) is None:
            summary = f"{variable} names the locale {name}, which is not installed"
            problems.append(problem(LOCALE_MISSING, summary, remedy=_remedy()))
    name = effective_locale(context.environ)
    codeset = None if name in _PLAIN else codeset_of(name)
    encoding = python_encoding(context.environ, codeset)
    summary = f"the locale is {name or 'C (none is set)'}, and Python takes {encoding}"
    if encoding != "UTF-8":
        problems.append(problem(LOCALE_NOT_UTF8, summary, remedy=_remedy()))
    figures = {"locale": name, "encoding": encoding}
    return CheckResult(summary=summary, problems=tuple(problems), figures=figures)


def _remedy() -> ShellCommand:
    """Old systems lack C.UTF-8. Python takes UTF-8 in the locale C, too."""
    if codeset_of("C.UTF-8") is None:
        return ShellCommand("export LC_ALL=C PYTHONUTF8=1")
    return ShellCommand("export LC_ALL=C.UTF-8")


def named_locales(environ: Mapping[str, str]) -> dict[str, str]:
    """The locales that count, by the first variable that names each (locale(7))."""
    names: dict[str, str] = {}
    if environ.get("LC_ALL"):
        return {"LC_ALL": environ["LC_ALL"]}
    for variable in (*_CATEGORIES, "LANG"):
        name = environ.get(variable)
        if name and name not in names.values():
            names[variable] = name
    return names


def effective_locale(environ: Mapping[str, str]) -> str:
    """The locale of characters: LC_ALL, else LC_CTYPE, else LANG; empty if none is set."""
    return environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""


def python_encoding(environ: Mapping[str, str], codeset: str | None) -> str:
    """The encoding of text files in Python 3.11 to 3.14, if a program names none.

    `codeset` is that of the locale; None for C, POSIX, and for one that is not installed.
    """
    mode = environ.get("PYTHONUTF8")
    if mode == "1":
        return "UTF-8"
    if codeset is not None:
        return codeset
    # PEP 540 turns the UTF-8 mode on in the C locale; PYTHONUTF8=0 forbids that.
    if mode != "0":
        return "UTF-8"
    # PEP 538 puts C.UTF-8 in place of C, unless LC_ALL is set.
    if environ.get("LC_ALL") or environ.get("PYTHONCOERCECLOCALE") == "0":
        return "ASCII"
    return "UTF-8"


def codeset_of(name: str) -> str | None:
    """The encoding of the locale `name`; None if it is not installed.

    It is loaded beside the current one, which all threads share: newlocale(3).
    """
    import ctypes

    libc = ctypes.CDLL(None)
    libc.newlocale.restype = ctypes.c_void_p
    libc.newlocale.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p]
    libc.nl_langinfo_l.restype = ctypes.c_char_p
    libc.nl_langinfo_l.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.freelocale.argtypes = [ctypes.c_void_p]
    locale = libc.newlocale(_ALL_MASK, name.encode(errors="surrogateescape"), None)
    if not locale:
        return None
    try:
        codeset: bytes = libc.nl_langinfo_l(_CODESET, locale)
        return codeset.decode("ascii", "replace")
    finally:
        libc.freelocale(locale)


CHECK = DoctorCheck(
    id="machine/locale",
    title="locale and text encoding",
    run=_run,
)
