# SPDX-License-Identifier: Apache-2.0
"""The table of keys beside the published schemas, and which key was meant."""

import json
from importlib.resources import files

import pytest

from ci_doctor.lint.pipelines.step_keys import (
    BLOCK_KEYS,
    COMMAND_KEYS,
    GROUP_KEYS,
    INPUT_KEYS,
    JOB_KEYS,
    PIPELINE_KEYS,
    TRIGGER_KEYS,
    WAIT_KEYS,
    WORKFLOW_KEYS,
    WORKFLOW_STEP_KEYS,
    distance,
    nearest_key,
)


def schema(name: str) -> dict[str, dict[str, dict[str, object]]]:
    folder = files("check_jsonschema") / "builtin_schemas" / "vendor"
    loaded: dict[str, dict[str, dict[str, object]]] = json.loads((folder / name).read_text())
    return loaded


@pytest.mark.parametrize(
    ("definition", "keys"),
    [
        ("commandStep", COMMAND_KEYS),
        ("waitStep", WAIT_KEYS),
        ("blockStep", BLOCK_KEYS),
        ("inputStep", INPUT_KEYS),
        ("triggerStep", TRIGGER_KEYS),
        ("groupStep", GROUP_KEYS),
    ],
)
def test_every_key_of_the_published_schema_is_known(definition: str, keys: frozenset[str]) -> None:
    published = schema("buildkite.json")["definitions"][definition]["properties"]

    assert isinstance(published, dict)
    assert set(published) <= keys


def test_every_key_of_a_pipeline_and_a_workflow_is_known() -> None:
    workflow = schema("github-workflows.json")
    jobs = [
        workflow["definitions"][name]["properties"]
        for name in ("normalJob", "reusableWorkflowCallJob")
    ]
    step = workflow["definitions"]["step"]["properties"]

    assert set(schema("buildkite.json")["properties"]) <= PIPELINE_KEYS
    assert set(workflow["properties"]) <= WORKFLOW_KEYS
    assert {key for job in jobs if isinstance(job, dict) for key in job} <= JOB_KEYS
    assert isinstance(step, dict)
    assert set(step) <= WORKFLOW_STEP_KEYS


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("timeout_in_minute", "timeout_in_minutes"),
        ("timeoutInMinutes", "timeout_in_minutes"),
        ("artifact-paths", "artifact_paths"),
        ("comand", "command"),
        ("lable", "label"),
        ("owner", None),
        ("x", None),
    ],
)
def test_the_nearest_key_is_the_one_that_was_meant(written: str, meant: str | None) -> None:
    assert nearest_key(written, COMMAND_KEYS) == meant


def test_letters_swapped_are_one_step_apart() -> None:
    assert distance("lable", "label", 2) == 1
    assert distance("abc", "abc", 2) == 0
    assert distance("abcdef", "x", 2) == 3
