# SPDX-License-Identifier: Apache-2.0
"""Pure. One step that uses another version of a plugin or an action than all others of the file."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile
from ci_doctor.lint.pipelines.reading.yaml_nodes import ScalarNode
from ci_doctor.lint.pipelines.rules.unpinned_plugin import plugin_names
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

_BAD_STEP = "  - {command: make, plugins: [{docker#v5.1.0: {image: 'a/b:1'}}]}\n"
_STEP = "  - {command: make, plugins: [{docker#v5.2.0: {image: 'a/b:1'}}]}\n"

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/differing-versions",
        severity=Severity.NOTE,
        meaning="One step uses another version of a plugin or an action than all other steps of the file: it was probably forgotten at an update.",
        remedy="Use one version, or say in a comment why this step has its own.",
    ),
    bad=(
        buildkite("steps:\n" + 5 * _STEP + _BAD_STEP),
        buildkite("steps:\n" + 3 * _STEP + _BAD_STEP + 3 * _STEP),
        job_steps(5 * "- uses: actions/cache@v4\n" + "- uses: actions/cache@v3\n"),
        job_steps("- uses: actions/cache/save@v3\n" + 6 * "- uses: actions/cache/save@v4\n"),
        job_steps(7 * "- uses: a/b@v2.1\n" + "- uses: a/b@v2\n"),
    ),
    good=(
        buildkite("steps:\n" + 5 * _STEP),
        buildkite("steps:\n" + 3 * _STEP + 2 * _BAD_STEP),
        job_steps("- uses: actions/cache@v4\n- uses: actions/cache@v3\n"),
    ),
)

_FEWEST = 5


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """A version used once where another one is used five times or more."""
    uses: dict[str, list[tuple[str, ScalarNode]]] = defaultdict(list)
    for node in _references(pipeline):
        sign = "@" if pipeline.kind in (FileKind.WORKFLOW, FileKind.ACTION) else "#"
        name, _, version = node.value.partition(sign)
        if version and "$" not in version:
            uses[name].append((version, node))
    for name, versions in uses.items():
        counts = Counter(version for version, _ in versions)
        usual, count = counts.most_common(1)[0]
        if len(counts) != 2 or count < _FEWEST or count != len(versions) - 1:
            continue
        version, node = next(each for each in versions if each[0] != usual)
        yield pipeline.violation(
            RULE,
            node,
            f"'{name}' has the version {version} here and {usual} in {count} other steps",
        )


def _references(pipeline: PipelineFile) -> Iterator[ScalarNode]:
    visited: set[int] = set()
    for step in pipeline.commands:
        uses = step.node.get("uses")
        names = [uses] if isinstance(uses, ScalarNode) else plugin_names(step.node.get("plugins"))
        for name in names:
            if id(name) not in visited:
                visited.add(id(name))
                yield name
