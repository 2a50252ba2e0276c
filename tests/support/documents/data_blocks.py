# SPDX-License-Identifier: Apache-2.0
"""Reads blocks of TOML, YAML, JSON and Python as the programs do for which they are meant."""

import json
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import yaml

from ci_doctor.commands.config import describe
from ci_doctor.config.loading import load_config
from ci_doctor.diagnosis.log_rules import parse_rules
from ci_doctor.errors import CiDoctorError
from ci_doctor.pytest_runs.quarantine import read_quarantine
from tests.support.documents.page import Block

DATA = {"toml", "yaml", "yml", "json", "jsonl"}
_SCHEMAS = {"steps": "buildkite", "jobs": "github-workflows", "runs": "github-actions"}


def mistake_in_data(block: Block, scratch: Path) -> str | None:
    """What the reader of such a file says against the block; None if it takes it. `scratch` is an empty directory."""
    readers = {"toml": _read_toml, "json": _read_json, "jsonl": _read_json}
    try:
        readers.get(block.language, _read_yaml)(block.text, scratch)
    except (CiDoctorError, ValueError, yaml.YAMLError, jsonschema.ValidationError) as error:
        return str(error).partition("\n\n")[0]
    return None


def pipeline_commands(text: str) -> list[str]:
    """The scripts in the steps of a block of YAML."""
    documents = [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]
    return [script for document in documents for script in _scripts(document)]


def _scripts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [script for each in value for script in _scripts(each)]
    if not isinstance(value, dict):
        return []
    found = [script for each in value.values() for script in _scripts(each)]
    for key in ("command", "commands", "run"):
        script = value.get(key)
        lines = script if isinstance(script, list) else [script]
        found += [line for line in lines if isinstance(line, str)]
    return found


def _read_toml(text: str, scratch: Path) -> None:
    """By its tables: rules about log lines, a quarantine, a project, else ci-doctor.toml."""
    tables = tomllib.loads(text)
    if "rule" in tables:
        parse_rules(text, "rules.toml")
    elif "quarantine" in tables:
        path = scratch / "quarantine.toml"
        path.write_text(text)
        read_quarantine(path)
    elif not {"project", "build-system"} & set(tables):
        name = "pyproject.toml" if "tool" in tables else "ci-doctor.toml"
        path = scratch / name
        path.write_text(text)
        describe(load_config(path, scratch))


def _read_json(text: str, _scratch: Path) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        for line in text.splitlines():
            json.loads(line)


def _read_yaml(text: str, _scratch: Path) -> None:
    """By its keys: a pipeline of Buildkite, a workflow or an action of GitHub, else any YAML."""
    for document in yaml.safe_load_all(text):
        if isinstance(document, dict):
            # PyYAML reads YAML 1.1, where the word `on` is true.
            named = {"on" if key is True else key: value for key, value in document.items()}
            _validate(named)


def _validate(document: dict[str, Any]) -> None:
    steps = document.get("steps", ())
    if any(isinstance(step, dict) and {"run", "uses"} & set(step) for step in steps):
        # The steps of a job, as a page about GitHub shows them.
        job = {"runs-on": "ubuntu-latest", **document}
        document = {"on": "push", "jobs": {"job": job}}
    for key, name in _SCHEMAS.items():
        if key in document:
            jsonschema.validate(document, _schema(name))


@cache
def _schema(name: str) -> Any:
    path = files("check_jsonschema") / f"builtin_schemas/vendor/{name}.json"
    return msgspec.json.decode(path.read_text("utf-8"))
