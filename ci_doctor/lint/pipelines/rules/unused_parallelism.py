# SPDX-License-Identifier: Apache-2.0
"""Pure. Parallel jobs of one step that all do the same work."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import PipelineFile, PipelineStep
from ci_doctor.lint.pipelines.reading.yaml_nodes import ScalarNode, walk, whole_number
from ci_doctor.lint.pipelines.scripts import command_texts
from ci_doctor.lint.pipelines.word_sets import words
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/unused-parallelism",
        severity=Severity.WARNING,
        meaning="A step has `parallelism`, and its commands do not read BUILDKITE_PARALLEL_JOB: each of its jobs runs all of the tests.",
        remedy="Share the tests out: `pytest --shard-id=$$BUILDKITE_PARALLEL_JOB --num-shards=$$BUILDKITE_PARALLEL_JOB_COUNT`.",
    ),
    bad=(
        buildkite("steps:\n  - command: pytest tests\n    parallelism: 4\n"),
        buildkite(
            "steps:\n  - commands: [cd tests, python -m pytest -v kernels]\n    parallelism: 2\n"
        ),
        buildkite("steps:\n  - command: pip install . && pytest tests\n    parallelism: '4'\n"),
        buildkite(
            "steps:\n  - commands:\n      - export A=1\n      - pytest -x tests\n    parallelism: 3\n    num_gpus: 1\n"
        ),
        buildkite(
            "steps:\n  - command: |\n      uv pip install -e .\n      pytest tests\n    parallelism: 8\n"
        ),
    ),
    good=(
        buildkite(
            "steps:\n  - command: pytest tests --shard-id=$$BUILDKITE_PARALLEL_JOB\n    parallelism: 4\n"
        ),
        buildkite("steps:\n  - command: pytest tests\n    parallelism: 1\n"),
        buildkite(
            "steps:\n  - command: pytest tests\n    env: {SHARD: $BUILDKITE_PARALLEL_JOB}\n    parallelism: 4\n"
        ),
        # What a script or another tool does is not known.
        buildkite("steps:\n  - command: ./run_tests.sh\n    parallelism: 4\n"),
        buildkite("steps:\n  - command: make test\n    parallelism: 4\n"),
        buildkite("steps:\n  - command: pytest --knapsack tests\n    parallelism: 4\n"),
    ),
)

_PARALLEL = re.compile(
    r"PARALLEL_JOB|knapsack|bktec|test-engine|ci[_-]node|[-_]shard|\bsplits?\b|--group",
    re.IGNORECASE,
)
_PART = re.compile(r"&&|;|\n|\|\|")
# Programs of which we know that they do not read the agent's variables themselves.
_KNOWN: Final = words("cd echo export pip pip3 uv pytest set mkdir ls date nvidia-smi apt-get true")


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Steps of which every program is known and none shares the work."""
    for step in pipeline.commands:
        node = step.node.get("parallelism")
        count = whole_number(node)
        if node is None or count is None or count < 2 or step.mirrored:
            continue
        if not _reads_number(step) and _all_known(step):
            yield pipeline.violation(
                RULE, node, f"all {count} jobs of {step.name} run the same tests"
            )


def _reads_number(step: PipelineStep) -> bool:
    return any(
        isinstance(each, ScalarNode) and _PARALLEL.search(each.value) for each in walk(step.node)
    )


def _all_known(step: PipelineStep) -> bool:
    if step.node.get("plugins") is not None:
        return False
    tests = False
    for text in command_texts(step):
        for part in _PART.split(text.value):
            words = [word for word in part.split() if not re.fullmatch(r"\w+=\S*", word)]
            if not words or words[0].startswith("#"):
                continue
            program = words[0]
            if program in ("python", "python3") and words[1:3] == ["-m", "pytest"]:
                program = "pytest"
            if program not in _KNOWN:
                return False
            tests = tests or program == "pytest"
    return tests
