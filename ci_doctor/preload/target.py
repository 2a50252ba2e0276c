# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: asks a target interpreter where its site directory is, and whether a shim may be put there."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.preload.interpreter import ask, clean_environment

OLDEST = (3, 8)
PROBE_TIMEOUT_S = 60.0

# What the interpreter says of itself, in the words of `Probe`; old syntax, so that an old interpreter can say its version.
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
    "externally_managed": os.path.isfile(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")),
    "cache_tag": sys.implementation.cache_tag,
    "magic": "".join("%02x" % byte for byte in bytearray(importlib.util.MAGIC_NUMBER)),
}))
"""


class TargetProbe(Struct, frozen=True, kw_only=True):
    """What an interpreter says of itself; paths as it writes them."""

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


class Target(Struct, frozen=True, kw_only=True):
    """An interpreter and the site directory that its shim belongs in.

    `cache_tag` and `magic` (hexadecimal): how it names and marks its bytecode. `prefix` is the environment's root where it
    is a virtual environment.
    """

    python: Path
    version: tuple[int, int, int]
    site_dir: Path
    externally_managed: bool
    writable: bool
    cache_tag: str | None = None
    magic: str = ""
    prefix: Path | None = None


def inspect_interpreter(python: Path, *, timeout_s: float = PROBE_TIMEOUT_S) -> Target:
    """The target that `python`, an interpreter or the directory of a virtual environment, stands for.

    Raises UsageError where it is no CPython >= 3.8 or reads no site directory, InfraError where it does not answer.
    """
    executable = Path(os.path.abspath(python / "bin" / "python" if python.is_dir() else python))  # noqa: PTH100 - resolve() would leave the venv
    # -B: what its `.pth` files import must not leave bytecode behind.
    answer = ask(
        executable,
        "-I",
        "-B",
        "-c",
        _PROBE,
        timeout_s=timeout_s,
        environment=clean_environment(os.environ),
    )
    if answer.exit_code is None:
        raise InfraError(
            f"{executable} did not answer within {timeout_s:.0f} s",
            hint=f"run `{executable} -I -c pass`",
        )
    try:
        # The last line: a sitecustomize may print before it.
        probe = msgspec.json.decode(answer.stdout.strip().splitlines()[-1], type=TargetProbe)
    except (msgspec.DecodeError, IndexError):
        raise UsageError(
            f"{executable} is not a Python >= 3.8 interpreter: {answer.last_error_line}",
            hint="name a Python interpreter, such as .venv/bin/python",
        ) from None
    return _judge(executable, probe)


def choose_site_dir(
    preferred: Sequence[str], site_dirs: Sequence[str], sys_path: Sequence[str]
) -> str | None:
    """The first of `preferred` and then `site_dirs` that is both a site directory and on `sys_path`, or None.

    `site` reads `.pth` files from site directories only, and what they import must be on sys.path. The first site
    directory is not always right: it is lib64 on some systems and sys.prefix on Windows.
    """
    sites, importable = (
        {os.path.realpath(entry) for entry in entries} for entries in (site_dirs, sys_path)
    )
    fits = (
        entry for entry in (*preferred, *site_dirs) if os.path.realpath(entry) in sites & importable
    )
    return next(fits, None)


def _judge(executable: Path, probe: TargetProbe) -> Target:
    version = ".".join(map(str, probe.version))
    if probe.implementation != "cpython" or probe.version < OLDEST:
        raise UsageError(
            f"{executable} is {probe.implementation} {version}; a preload shim needs CPython 3.8 or later",
            hint="name another interpreter",
        )
    site_dir = choose_site_dir((probe.purelib, probe.platlib), probe.site_dirs, probe.sys_path)
    if site_dir is None:
        raise UsageError(
            f"{executable} reads no site directory ({', '.join(probe.site_dirs) or 'it names none'})",
            hint="make a virtual environment with it, and name that",
        )
    return Target(
        python=executable,
        version=probe.version,
        site_dir=Path(site_dir),
        # PEP 668 speaks of the interpreter itself; a virtual environment made from it is free.
        externally_managed=probe.externally_managed and probe.prefix == probe.base_prefix,
        writable=_is_writable(site_dir),
        cache_tag=probe.cache_tag,
        magic=probe.magic,
        prefix=None if probe.prefix == probe.base_prefix else Path(probe.prefix),
    )


def former_targets(target: Target) -> tuple[Target, ...]:
    """What `target` was before its virtual environment got another minor version: site directories beside its own."""
    if target.prefix is None:
        return ()
    beside = (
        path
        for lib in ("lib64", "lib")
        for path in sorted(target.prefix.glob(f"{lib}/python3.*/site-packages"))
    )
    distinct = {os.path.realpath(path): path for path in beside}
    distinct.pop(os.path.realpath(target.site_dir), None)
    return tuple(
        replace(target, site_dir=path, writable=_is_writable(str(path)), cache_tag=None)
        for path in distinct.values()
    )


def _is_writable(site_dir: str) -> bool:
    """Root may write where no one should: a directory that nobody's mode lets write (0555) is meant to stay as it is."""
    return os.access(site_dir, os.W_OK | os.X_OK) and bool(Path(site_dir).stat().st_mode & 0o222)
