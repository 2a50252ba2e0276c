# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor config retry-rules` as it is typed: YAML or JSON on stdout, and nothing else."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.cli import inside

pytestmark = pytest.mark.integration


def test_the_rules_follow_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "ci-doctor.toml").write_text("[exit-codes]\ninfra = 255\n")

    ran = inside("config", "retry-rules", cwd=tmp_path, env={"BUILDKITE": "true"})

    assert (ran.code, ran.err) == (0, "")
    assert yaml.safe_load(ran.out)["retry"]["automatic"][0] == {"exit_status": 255, "limit": 2}


def test_programs_get_the_same_rules(tmp_path: Path) -> None:
    ran = inside("config", "retry-rules", "--json", cwd=tmp_path)

    facts = json.loads(ran.out)["facts"]
    assert facts["retry"][0] == {"exit_status": 75, "limit": 2}
    assert facts["soft_fail"] == [{"exit_status": 85}]
    assert facts["exit_codes"]["infra"] == 75


def test_codes_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "ci-doctor.toml").write_text("[exit-codes]\ninfra = 1\n")

    ran = inside("config", "retry-rules", cwd=tmp_path)

    assert (ran.code, ran.out) == (2, "")
    assert "infra and regression share the code 1" in ran.err
