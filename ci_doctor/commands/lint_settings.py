# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: `[lint]` and its baseline."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.config.decoding import decode_section, path_in
from ci_doctor.config.loading import load_config
from ci_doctor.lint.all_rules import rule_ids
from ci_doctor.lint.run import LintRequest, readers_of
from ci_doctor.lint.selection import LintSettings, check_rule_names, read_baseline


def lint_request(
    names: tuple[str, ...],
    config_path: Path | None,
    environ: Mapping[str, str],
    *,
    since: str | None,
    baseline: str | None,
) -> LintRequest:
    """What the command line and the configuration ask for. Raises UsageError, ConfigError."""
    loaded = load_config(config_path, Path.cwd())
    settings, origins = decode_section(
        loaded, "lint", LintSettings, environ=environ, flags={"baseline": baseline}
    )
    check_rule_names(settings, rule_ids, loaded.where("lint"))
    file = None
    if settings.baseline is not None:
        file = path_in(loaded, origins["baseline"], settings.baseline)
    return LintRequest(
        names=names,
        cwd=Path.cwd(),
        rule_ids=rule_ids,
        readers=readers_of,
        since=since,
        settings=settings,
        baseline=None if file is None else read_baseline(file),
        baseline_file=None if file is None else str(file),
    )
