# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: `[diagnose]`, with the repository's own exit codes."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.config.decoding import decode_section, path_in
from ci_doctor.config.exit_codes import read_exit_codes
from ci_doctor.config.loading import Config, load_config
from ci_doctor.diagnosis.settings import DiagnoseSettings
from ci_doctor.model.verdict import Verdict
from ci_doctor.session.exit_policy import ExitPolicy


def own_rule_files(config_path: Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The repository's rules files, relative to the file naming them. Raises ConfigError."""
    return rule_files(load_config(config_path, Path.cwd()), environ)


def rule_files(loaded: Config, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The same of a configuration that is loaded."""
    settings, origins = decode_section(
        loaded, "diagnose", DiagnoseSettings, environ=environ, flags={}
    )
    return tuple(path_in(loaded, origins["rules"], name) for name in settings.rules)


def exit_policy(
    loaded: Config, environ: Mapping[str, str], unjudged_as: Verdict | None
) -> ExitPolicy:
    """The repository's codes; `unjudged_as` as in ExitPolicy."""
    codes, _ = read_exit_codes(loaded, environ)
    return ExitPolicy(codes=codes, unjudged_as=unjudged_as)
