# SPDX-License-Identifier: Apache-2.0
"""Plans of two arms from a configuration file, for tests."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.config.loading import load_config
from ci_doctor.correctness.pace import budget_of
from ci_doctor.correctness.planning import plan, read_settings
from ci_doctor.correctness.settings import Arm, ExperimentPlan
from ci_doctor.load.requests import Request

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
NOTHING: Mapping[Arm, Mapping[str, str]] = {arm: {} for arm in Arm}
BOTH = """
[services.kv]
command = "sleep {port}"
[services.vllm]
command = "sleep {port}"
env = { MODE = "shared" }
[correctness]
baseline = { services = ["vllm"] }
candidate = { services = ["kv", "vllm"], env = { MODE = "own" } }
"""


def planned(
    directory: Path,
    text: str = BOTH,
    *,
    commands: Mapping[Arm, str | None] | None = None,
    variables: Mapping[Arm, Mapping[str, str]] = NOTHING,
    environment: Mapping[str, str] = ENVIRONMENT,
    **flags: object,
) -> ExperimentPlan:
    (directory / "ci-doctor.toml").write_text(text)
    loaded = load_config(directory / "ci-doctor.toml", directory)
    typed = {arm.value: command for arm, command in (commands or {}).items()}
    settings = read_settings(loaded, environment, {**flags, **typed}, variables)
    request = Request(id="r0", path="/", body={}, line=1)
    budget, _ = budget_of(settings, environment, 100.0)
    return plan(
        settings, loaded, (request,), budget=budget, directory=directory, environment=environment
    )
