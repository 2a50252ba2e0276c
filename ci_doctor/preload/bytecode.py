# SPDX-License-Identifier: Apache-2.0
"""Reads files and acts on processes: the bytecode of the shim's modules, which saves every start 1.5 ms."""

import os
import re
from pathlib import Path

from ci_doctor.preload.interpreter import ask, clean_environment
from ci_doctor.preload.shim_files import FILES, MODULES
from ci_doctor.preload.target import Target

CACHE = "__pycache__"
COMPILE_TIMEOUT_S = 60.0

_STEMS = "|".join(re.escape(Path(name).stem) for name in MODULES)
# `.NAME.cpython-312.pyc.k3x_9abd`, ours; `NAME.cpython-312.pyc.140234`, of an interpreter that was killed as it wrote.
_COMPILED = re.compile(rf"(?:{_STEMS})\.[\w-]+(?:\.opt-\w+)?\.pyc")
_CUT_OFF_IN_CACHE = re.compile(rf"{_COMPILED.pattern}\.\d+|\.{_COMPILED.pattern}\.[a-z0-9_]{{8}}")
# What `system.files.write_atomically` writes before it renames.
_CUT_OFF = re.compile(rf"\.(?:{'|'.join(map(re.escape, FILES))})\.[a-z0-9_]{{8}}")

# The bytecode comes back over stdout, in hexadecimal, so that only ci-doctor ever writes into the site directory.
_COMPILE = """
import importlib.util, marshal, os, struct, sys
for path in sys.argv[1:]:
    about = os.stat(path)
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", 0, True)
    header = struct.pack("<III", 0, int(about.st_mtime) & 0xFFFFFFFF, about.st_size & 0xFFFFFFFF)
    print((importlib.util.MAGIC_NUMBER + header + marshal.dumps(code)).hex())
"""


def is_compiled(name: str) -> bool:
    """Whether a file of that name in `__pycache__` is bytecode of ours, of any interpreter and optimisation."""
    return bool(_COMPILED.fullmatch(name))


def is_cut_off(name: str, *, in_cache: bool) -> bool:
    """Whether a file of that name is what a killed process left of a write of one of our files."""
    return bool((_CUT_OFF_IN_CACHE if in_cache else _CUT_OFF).fullmatch(name))


def compiled_path(target: Target, name: str) -> Path | None:
    """Where `target` keeps the bytecode of its module file `name`; None where it has not said how it names it."""
    if not target.cache_tag:
        return None
    return target.site_dir / CACHE / f"{Path(name).stem}.{target.cache_tag}.pyc"


def is_fresh(compiled: Path, source: Path, magic: str) -> bool:
    """Whether an interpreter with that magic number (hexadecimal) would use `compiled` for `source`."""
    try:
        with compiled.open("rb") as file:
            header = file.read(16)
        about = source.stat()
    except OSError:
        return False
    times = (int(about.st_mtime) & 0xFFFFFFFF, about.st_size & 0xFFFFFFFF)
    return header == bytes.fromhex(magic) + b"".join(
        number.to_bytes(4, "little") for number in (0, *times)
    )


def compile_module(target: Target, name: str) -> bytes | None:
    """The bytecode that `target` makes of its module file `name`, or None: a shim without it is slower, not wrong."""
    answer = ask(
        target.python, "-I", "-B", "-c", _COMPILE, str(target.site_dir / name),
        timeout_s=COMPILE_TIMEOUT_S, environment=clean_environment(os.environ),
    )  # fmt: skip
    try:
        # The last line: a sitecustomize may print before it.
        return (
            bytes.fromhex(answer.stdout.strip().splitlines()[-1]) if answer.exit_code == 0 else None
        )
    except (IndexError, ValueError):
        return None
