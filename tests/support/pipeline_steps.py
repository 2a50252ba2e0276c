# SPDX-License-Identifier: Apache-2.0
"""Steps of a Buildkite pipeline's YAML, for tests that run them."""

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft7Validator


@cache
def _validator() -> Draft7Validator:
    """https://github.com/buildkite/pipeline-schema, as check-jsonschema ships it."""
    schema = files("check_jsonschema") / "builtin_schemas/vendor/buildkite.json"
    return Draft7Validator(json.loads(schema.read_text("utf-8")))


def schema_problems(*steps: dict[str, Any]) -> list[str]:
    """What the published schema of pipelines says against `steps`."""
    return [error.message for error in _validator().iter_errors({"steps": list(steps)})]


def step_of(pipeline: Path, key: str) -> dict[str, Any]:
    """The step with this key."""
    steps = yaml.safe_load(pipeline.read_text(encoding="utf-8"))["steps"]
    return next(dict(step) for step in steps if step.get("key") == key)


def plugin_of(step: dict[str, Any], name: str) -> Any:
    """The configuration that the step gives the plugin whose source holds `name`."""
    for plugin in step["plugins"]:
        for source, configuration in plugin.items():
            if name in source:
                return configuration
    raise KeyError(name)


def command_of(step: dict[str, Any]) -> str:
    """Its command as the agent gets it: several are lines of one script.

    https://buildkite.com/docs/pipelines/configure/step-types/command-step ("commands")
    """
    command = step["command"]
    return command if isinstance(command, str) else "\n".join(command)


def retried(step: dict[str, Any], exit_status: int) -> bool:
    """Whether `retry.automatic` retries this exit status; the first rule that fits decides.

    https://buildkite.com/docs/pipelines/configure/retry ("Automatic retry attributes")
    """
    for rule in step.get("retry", {}).get("automatic", []):
        wanted = rule.get("exit_status", "*")
        statuses = wanted if isinstance(wanted, list) else [wanted]
        if "signal_reason" in rule and rule["signal_reason"] != "none":
            continue
        if exit_status in statuses or "*" in statuses:
            return bool(rule.get("limit", 2))
    return False
