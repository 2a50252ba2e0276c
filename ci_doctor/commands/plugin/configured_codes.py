# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration for a failed command: the exit codes, and the files of log rules."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_doctor.errors import ConfigError

if TYPE_CHECKING:
    from ci_doctor.config.loading import Config


class ConfiguredCodes(Struct, frozen=True, kw_only=True):
    """`codes` by verdict and all that is `loaded`; None if it is broken: then `problem` says so."""

    codes: Mapping[str, int] | None = None
    loaded: "Config | None" = None
    rules: tuple[Path, ...] = ()
    problem: str | None = None


def read_codes(config: str | None, environ: Mapping[str, str]) -> ConfiguredCodes:
    """What the file `config` says, or the one that is found from the working directory."""
    from ci_doctor.commands.diagnose_settings import rule_files
    from ci_doctor.config.exit_codes import read_exit_codes
    from ci_doctor.config.loading import load_config
    from ci_doctor.diagnosis.diagnosis import load_rules

    try:
        loaded = load_config(Path(config) if config else None, Path.cwd())
        rules = rule_files(loaded, environ)
        # A broken rule is one that may hide the cause.
        load_rules(rules)
        codes, _ = read_exit_codes(loaded, environ)
    except ConfigError as error:
        return ConfiguredCodes(problem=f"{error.message}; no status is changed")
    return ConfiguredCodes(codes=codes, loaded=loaded, rules=rules)
