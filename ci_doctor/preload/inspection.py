# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: queries an interpreter for its site directory, and whether it may change."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.preload.interpreter import ask, clean_environment
from ci_doctor.preload.target import Target

OLDEST = (3, 8)
PROBE_TIMEOUT_S = 60.0

# Prints the fields of TargetProbe; in old syntax, so that an old interpreter can print its version.
_PROBE = """
import importlib.util, json, os, site, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
    "prefix": sys.prefix,
    "base_prefix": sys.base_prefix,
    "purelib": sysconfig.get_path("purelib"),
    "platlib": sysconfig.get_path("platlib"),
    "site_dirs": site.getsitepackages(),
    "sys_path": sys.path,
    "externally_managed": os.path.isfile(
        os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    ),
    "cache_tag": sys.implementation.cache_tag,
    "magic": "".join("%02x" % byte for byte in bytearray(importlib.util.MAGIC_NUMBER)),
}))
"""


class TargetProbe(Struct, frozen=True, kw_only=True):
    """What an interpreter reports of itself; paths in its own spelling."""

    version: tuple[int, int, int]
    implementation: str
    prefix: str
    base_prefix: str
    purelib: str
    platlib: str
    site_dirs: tuple[str, ...]
    sys_path: tuple[str, ...]
    externally_managed: bool
    cache_tag: str | None
    magic: str


def inspect_interpreter(python: Path, *, timeout_s: float = PROBE_TIMEOUT_S) -> Target:
    """The target for `python`, an interpreter or the directory of a virtual environment.

    Raises UsageError if it is no CPython >= 3.8 or reads no site directory, InfraError if it does
    not answer.
    """
    path = python / "bin" / "python" if python.is_dir() else python
    executable = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would leave the venv
    # -B: what its `.pth` files import must not leave bytecode behind.
    options = ("-I", "-B", "-c", _PROBE)
    environment = clean_environment(os.environ)
    answer = ask(executable, *options, timeout_s=timeout_s, environment=environment)
    if answer.exit_code is None:
        raise InfraError(
            f"{executable} did not answer within {timeout_s:.0f} s",
            hint=f"run `{executable} -I -c pass`",
        )
    try:
        probe = msgspec.json.decode(answer.last_line, type=TargetProbe)
    except (msgspec.DecodeError, IndexError):
        raise UsageError(
            f"{executable} is not a Python >= 3.8 interpreter: {answer.last_error_line}",
            hint="name a Python interpreter, such as .venv/bin/python",
        ) from None
    return _judge(executable, probe)


def choose_site_dir(
    preferred: Sequence[str], site_dirs: Sequence[str], sys_path: Sequence[str]
) -> str | None:
    """The first of `preferred`, `site_dirs` that is a site directory and on `sys_path`, or None.

    `site` reads `.pth` files from site directories only, and what they import must be on sys.path.
    The first site directory is not always right: it is lib64 on some systems and sys.prefix on
    Windows.
    """
    sites = {os.path.realpath(entry) for entry in site_dirs}
    importable = {os.path.realpath(entry) for entry in sys_path}
    for entry in (*preferred, *site_dirs):
        if os.path.realpath(entry) in sites & importable:
            return entry
    return None


def _judge(executable: Path, probe: TargetProbe) -> Target:
    version = ".".join(map(str, probe.version))
    if probe.implementation != "cpython" or probe.version < OLDEST:
        raise UsageError(
            f"{executable} is {probe.implementation} {version}; "
            "a preload shim needs CPython 3.8 or later",
            hint="name another interpreter",
        )
    site_dir = choose_site_dir((probe.purelib, probe.platlib), probe.site_dirs, probe.sys_path)
    if site_dir is None:
        named = ", ".join(probe.site_dirs) or "it names none"
        raise UsageError(
            f"{executable} reads no site directory ({named})",
            hint="make a virtual environment with it, and name that",
        )
    is_venv = probe.prefix != probe.base_prefix
    return Target(
        python=executable,
        version=probe.version,
        site_dir=Path(site_dir),
        # PEP 668 is about the interpreter itself; a virtual environment created from it is not
        # affected.
        externally_managed=probe.externally_managed and not is_venv,
        writable=_is_writable(site_dir),
        cache_tag=probe.cache_tag,
        magic=probe.magic,
        prefix=Path(probe.prefix) if is_venv else None,
    )


def former_targets(target: Target) -> tuple[Target, ...]:
    """The site directories of a virtual environment under other minor versions, as targets."""
    if target.prefix is None:
        return ()
    # lib64 is often a link to lib: of two names for one directory the last one counts.
    distinct: dict[str, Path] = {}
    for lib in ("lib64", "lib"):
        for path in sorted(target.prefix.glob(f"{lib}/python3.*/site-packages")):
            distinct[os.path.realpath(path)] = path
    distinct.pop(os.path.realpath(target.site_dir), None)
    return tuple(
        replace(target, site_dir=path, writable=_is_writable(str(path)), cache_tag=None)
        for path in distinct.values()
    )


def _is_writable(site_dir: str) -> bool:
    """Whether this user may write there, and somebody should.

    Root may write anywhere. A directory with mode 0555 is meant to stay as it is.
    """
    is_marked_writable = bool(Path(site_dir).stat().st_mode & 0o222)
    return os.access(site_dir, os.W_OK | os.X_OK) and is_marked_writable
