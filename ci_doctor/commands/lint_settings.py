# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: `[lint]`, its baseline, and what of `[correctness]` rules compare with."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ci_doctor.config.decoding import decode_section, path_in, seconds_of
from ci_doctor.config.loading import Config, load_config
from ci_doctor.lint.all_rules import rule_ids
from ci_doctor.lint.baseline import read_baseline
from ci_doctor.lint.lint_run import LintRequest
from ci_doctor.lint.pipelines.pipeline_file import CorrectnessTimes
from ci_doctor.lint.reading import readers_of
from ci_doctor.lint.selection import check_rule_names
from ci_doctor.lint.settings import LintSettings


def _correctness(loaded: Config, environ: Mapping[str, str]) -> CorrectnessTimes | None:
    """How long `ci-doctor correctness` may take; None without such a section."""
    if "correctness" not in loaded.tables:
        return None
    from ci_doctor.correctness.settings import CorrectnessSettings

    settings, _ = decode_section(
        loaded, "correctness", CorrectnessSettings, environ=environ, flags={}
    )
    start = settings.start_timeout
    budget = settings.budget
    return CorrectnessTimes(
        retries=settings.retries,
        start=None if start is None else seconds_of(start, "start_timeout"),
        budget=None if budget is None else seconds_of(budget, "budget"),
    )


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
        readers=partial(readers_of, correctness=_correctness(loaded, environ)),
        since=since,
        settings=settings,
        baseline=None if file is None else read_baseline(file),
        baseline_file=None if file is None else str(file),
    )
