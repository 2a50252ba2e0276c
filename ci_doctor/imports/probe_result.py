# SPDX-License-Identifier: Apache-2.0
"""What a probe of one module in one interpreter found out. Pure."""

from pathlib import Path

from msgspec import Struct


class ProbeResult(Struct, frozen=True, kw_only=True):
    """What the main thread received while another thread imported `module` in `python`.

    exposed: None if nothing is known, because the import fails without any race; `error` has the
    reason. Otherwise `error` is that of the lost race, empty if the main thread merely received
    another object. replaced: all modules that replaced themselves meanwhile. immune: this
    interpreter does not lose such a race. rule: a preload rule that was seen to win, if one is needed.
    """

    module: str
    attribute: str
    python: Path
    exposed: bool | None
    error: str
    loaded_before: bool
    replaced: tuple[str, ...]
    immune: bool
    duration_s: float
    rule: str | None = None

    @property
    def target(self) -> str:
        """`MODULE` or `MODULE:ATTR`."""
        return f"{self.module}:{self.attribute}" if self.attribute else self.module
