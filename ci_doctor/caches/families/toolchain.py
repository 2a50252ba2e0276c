# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: asks a compiler for its version."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from ci_doctor.caches.families.unknown_fact import UnknownFactError
from ci_doctor.machine.toolkit import read_toolkit
from ci_doctor.system.processes.limited_runs import SeparateRun, run_limited

_TIMEOUT_S = 30  # on a busy machine, too
NONE = "none"
_NATIVE = dict.fromkeys(("x86_64", "i686", "aarch64", "riscv64"), "march")
# gcc names cc1 or cc1plus, clang itself with -cc1.
_HANDED_ON = re.compile(r"/cc1(?:plus)? |\s\"?-cc1\"? ")


def compiler_version(environ: Mapping[str, str]) -> str:
    """The C++ compiler that torch's extensions and TorchInductor run: $CXX, else g++.

    Its first line and a digest of all lines; `none` without a compiler. Raises UnknownFactError.
    """
    words = (environ.get("CXX") or "g++").split()
    program = shutil.which(words[0], path=environ.get("PATH", ""))
    return _version([program, *words[1:]], environ) if program else NONE


def native_answer(environ: Mapping[str, str]) -> str:
    """What the C and C++ compilers make of `-march=native` on this CPU: a digest; `none` without one.

    ccache and its like hash the words of a command, and not what they stand for on a machine. Asked
    are $CC and $CXX, gcc and g++, and clang if there is no gcc. Raises UnknownFactError.
    """
    answers = set()
    for words in _compilers(environ):
        flag = f"-{_NATIVE.get(os.uname().machine, 'mcpu')}=native"
        answers.add(_answer([*words, flag, "-E", "-v", "-x", "c", os.devnull], environ))
    if not answers:
        return NONE
    return hashlib.sha256("\n".join(sorted(answers)).encode()).hexdigest()[:12]


def _compilers(environ: Mapping[str, str]) -> Iterator[list[str]]:
    path = environ.get("PATH", "")
    named = [environ[name].split() for name in ("CC", "CXX") if environ.get(name, "").strip()]
    usual = [[name] for name in ("gcc", "g++")]
    if not any(shutil.which(words[0], path=path) for words in usual):
        usual = [["clang"], ["clang++"]]
    for words in (*named, *usual):
        program = shutil.which(words[0], path=path)
        if program is not None:
            yield [program, *words[1:]]


def _answer(words: list[str], environ: Mapping[str, str]) -> str:
    """The options that the driver hands to the compiler itself, which are those of this CPU."""
    run = _run(words, {**environ, "LC_ALL": "C"})
    handed_on = [line for line in run.stdout.splitlines() if _HANDED_ON.search(line)]
    if run.exit_code != 0 or not handed_on:
        raise UnknownFactError(f"{words[0]} does not say what -march=native stands for")
    # Directories are no part of it.
    return " ".join(word for word in handed_on[0].split() if "/" not in word)


def nvcc_version(environ: Mapping[str, str]) -> str:
    """CUDA's compiler in `cuda_home`; `none` without one. Raises UnknownFactError."""
    toolkit = read_toolkit(environ)
    if toolkit is None or not toolkit.nvcc.is_file():
        return NONE
    return _version([str(toolkit.nvcc)], environ)


def cuda_home(environ: Mapping[str, str]) -> str:
    """The directory of the CUDA toolkit; `none` without one."""
    toolkit = read_toolkit(environ)
    return NONE if toolkit is None else str(toolkit.home)


def _run(words: list[str], environ: Mapping[str, str]) -> SeparateRun:
    try:
        return run_limited(words, timeout_s=_TIMEOUT_S, cwd=Path("/"), environ=environ)
    except OSError as error:
        raise UnknownFactError(f"{words[0]} cannot be started: {error.strerror}") from error


def _version(words: list[str], environ: Mapping[str, str]) -> str:
    run = _run([*words, "--version"], environ)
    if run.exit_code != 0 or not run.stdout.strip():
        raise UnknownFactError(f"{words[0]} --version ended with {run.last_words}")
    digest = hashlib.sha256(run.stdout.encode()).hexdigest()[:12]
    return f"{run.stdout.strip().splitlines()[0]}, output {digest}"
