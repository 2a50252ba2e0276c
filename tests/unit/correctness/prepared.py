# SPDX-License-Identifier: Apache-2.0
"""Experiments that are prepared and not started, for tests."""

import json
from pathlib import Path
from typing import Any

from ci_doctor.correctness.planning import ExperimentRequest, PreparedExperiment, prepare
from ci_doctor.correctness.settings import ArmSettings, CorrectnessSettings
from tests.support.orders import SEED

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
ARM = ArmSettings(command="sleep {port}")


def settings(directory: Path, count: int = 2, **changes: Any) -> CorrectnessSettings:
    """Two equal arms and `count` requests, r0, r1 …, in a file of `directory`."""
    lines = [
        json.dumps({"id": f"r{number}", "body": {"prompt": "p", "temperature": 0}})
        for number in range(count)
    ]
    file = directory / "requests.jsonl"
    file.write_text("\n".join(lines) + "\n")
    fields: dict[str, Any] = {
        "baseline": ARM,
        "candidate": ARM,
        "budget": "5m",
        "seed": SEED,
        **changes,
    }
    return CorrectnessSettings(requests=str(file), **fields)


def prepared(directory: Path, count: int = 2, **changes: Any) -> PreparedExperiment:
    """The same, prepared, with `directory`/report as the report directory."""
    request = ExperimentRequest(settings=settings(directory, count, **changes), began=100.0)
    return prepare(request, directory / "report", ENVIRONMENT)
