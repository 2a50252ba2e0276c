# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: `[lint]`, its baseline, and what of `[correctness]` rules compare with."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.config.decoding import decode_section, path_in
from ci_doctor.config.loading import load_config
from ci_doctor.lint.baseline_file import read_baseline
from ci_doctor.lint.configured import check_rule_names
from ci_doctor.lint.lint_run import LintRequest
from ci_doctor.lint.readers import READERS
from ci_doctor.lint.rules import LINT_RULES
from ci_doctor.lint.settings import LintSettings


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
    rules = tuple(each.id for each in LINT_RULES)
    check_rule_names(settings, rules, loaded.where("lint"))
    file = None
    if settings.baseline is not None:
        file = path_in(loaded, origins["baseline"], settings.baseline)
    return LintRequest(
        names=names,
        cwd=Path.cwd(),
        rules=rules,
        readers=lambda _tree, _texts: READERS,
        since=since,
        settings=settings,
        baseline=None if file is None else read_baseline(file),
        baseline_file=None if file is None else str(file),
    )
