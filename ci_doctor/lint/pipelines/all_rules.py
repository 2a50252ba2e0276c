# SPDX-License-Identifier: Apache-2.0
"""Pure. All rules about pipelines, and their checks."""

from collections.abc import Callable, Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import PipelineFile
from ci_doctor.lint.pipelines.rules import (
    artifact_never_matches,
    condition_always_true,
    dependency_cycle,
    differing_versions,
    duplicate_key,
    duplicate_step_key,
    gpu_step_without_timeout,
    invalid_value,
    lost_agent_not_retried,
    lost_at_upload,
    placeholder,
    retried_timeout,
    retries_exceed_timeout,
    soft_fail,
    unknown_dependency,
    unknown_key,
    unknown_matrix_value,
    unparsable_yaml,
    unpinned_image,
    unpinned_plugin,
    unreadable_condition,
    unused_parallelism,
    version_as_number,
)
from ci_doctor.lint.violation import Violation

Check = Callable[[PipelineFile, PipelineContext], Iterator[Violation]]

_MODULES: Final = (
    artifact_never_matches,
    condition_always_true,
    dependency_cycle,
    differing_versions,
    duplicate_key,
    duplicate_step_key,
    gpu_step_without_timeout,
    invalid_value,
    lost_agent_not_retried,
    lost_at_upload,
    placeholder,
    retried_timeout,
    retries_exceed_timeout,
    soft_fail,
    unknown_dependency,
    unknown_key,
    unknown_matrix_value,
    unpinned_image,
    unpinned_plugin,
    unreadable_condition,
    unused_parallelism,
    version_as_number,
)

# `check_pipeline` itself runs the first one, which needs what the parser said.
RULES: Final[tuple[LintRule, ...]] = (unparsable_yaml.RULE, *(module.RULE for module in _MODULES))
CHECKS: Final[tuple[Check, ...]] = tuple(module.check for module in _MODULES)
