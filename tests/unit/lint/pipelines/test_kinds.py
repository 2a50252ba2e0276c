# SPDX-License-Identifier: Apache-2.0
"""Which YAML files belong to CI, and who reads them."""

import pytest

from ci_doctor.lint.pipelines.kinds import is_pipeline, kind_of
from ci_doctor.lint.pipelines.pipeline_file import FileKind
from ci_doctor.lint.pipelines.reading.compose import compose

STEPS = "steps:\n  - command: make\n"
RECORDS = 20 * "- key: a\n  link: b\n"


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (".github/workflows/test.yml", "not yaml: [", True),
        (".github/configs/matrix.yaml", "a: b\n", True),
        (".github/dependabot.yml", "version: 2\n", False),
        (".github/ISSUE_TEMPLATE/bug.yml", "name: x\n", False),
        ("tools/setup/action.yml", "runs:\n  using: composite\n", True),
        ("docs/action.yml", "a: b\n", False),
        (".buildkite/test_areas/kernels.yaml", "a: b\n", True),
        ("ci/other.YML", "a: b\n", True),
        (".gitlab-ci.yml", "a: b\n", True),
        ("release/pipeline.yml", STEPS, True),
        ("perf-changelog.yaml", RECORDS, True),
        ("perf-changelog.yaml", "# head\n---\n" + RECORDS, True),
        ("charts/crd.yaml", "kind: List\n" + RECORDS, False),
        ("config.yaml", "steps: 20\n", False),
        (".buildkite/run.sh", STEPS, False),
    ],
)
def test_a_file_is_known_by_its_path_or_its_lines(file: str, text: str, *, expected: bool) -> None:
    assert is_pipeline(file, text) is expected


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (".github/workflows/test.yml", "a: b\n", FileKind.WORKFLOW),
        ("x.yml", "on: push\njobs: {a: {runs-on: x}}\n", FileKind.WORKFLOW),
        ("x/action.yml", "runs: {using: composite, steps: []}\n", FileKind.ACTION),
        (".buildkite/p.yml", STEPS, FileKind.BUILDKITE),
        (".buildkite/p.yml", "- command: make\n- wait\n", FileKind.BUILDKITE),
        (".buildkite/p.yml", "steps:\n  - {commands: [a], num_gpus: 2}\n", FileKind.OWN_STEPS),
        (".buildkite/p.yml", "steps:\n  - {name: a, script: x, owner: b}\n", FileKind.BUILDKITE),
        (".buildkite/p.yml", "steps:\n  - {task: a, does: x, owner: b}\n", FileKind.OWN_STEPS),
        (".buildkite/models.yml", "a: {b: c}\n", FileKind.DATA),
        (".buildkite/empty.yml", "", FileKind.DATA),
    ],
)
def test_who_reads_a_file_follows_from_its_path_and_its_keys(
    file: str, text: str, expected: FileKind
) -> None:
    assert kind_of(file, compose(text).documents) is expected
