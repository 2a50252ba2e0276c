# SPDX-License-Identifier: Apache-2.0
"""Pure. How an interpreter was started: its version, its paths, and what it can load."""

import msgspec
from msgspec import Struct


class PythonState(Struct, frozen=True, kw_only=True):
    """What the probe prints.

    `version` is such as `3.12.4`. `path` is sys.path without the directory of the program. `hideable`
    are modules of the standard library that an earlier file on sys.path replaces. `suffixes` are the
    endings of extension modules. `glibc` is such as `glibc 2.36`, and empty elsewhere.
    """

    version: str
    full_version: str
    implementation: str
    cache_tag: str
    executable: str
    prefix: str
    base_prefix: str
    path: list[str]
    stdlib: str
    is_safe_path: bool
    optimize: int
    user_site: bool
    user_dir: str | None
    suffixes: list[str]
    glibc: str
    system: str
    release: str
    system_version: str
    machine: str
    platform: str
    hideable: list[str]

    @property
    def minor_version(self) -> str:
        """Such as `3.12`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def is_venv(self) -> bool:
        """Whether it is a virtual environment (PEP 405)."""
        return self.prefix != self.base_prefix


def read_state(stdout: str) -> PythonState | None:
    """The state in the probe's output, among what start files print; None if it printed none."""
    for line in reversed(stdout.splitlines()):
        state = _state(line)
        if state is not None:
            return state
    return None


def _state(line: str) -> PythonState | None:
    import ast

    if not line.startswith("{"):
        return None
    try:
        return msgspec.convert(ast.literal_eval(line), PythonState)
    except (ValueError, TypeError, SyntaxError, msgspec.ValidationError):
        return None
