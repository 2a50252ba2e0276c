# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.config.loading import load_config
from ci_doctor.correctness.configured import parse_arm_variables, read_settings
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import UsageError


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("candidate:X", "not ARM:NAME=VALUE"),
        ("X=1", "not ARM:NAME=VALUE"),
        ("candidate:=1", "not ARM:NAME=VALUE"),
        ("candidat:X=1", "unknown arm `candidat`"),
    ],
)
def test_a_variable_without_an_arm_or_a_name_is_refused(word: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arm_variables([word])
    assert said in caught.value.message


def test_a_value_may_hold_anything() -> None:
    parsed = parse_arm_variables(
        ["candidate:X=a=b:c", "candidate:Y=", "baseline:X=1", "baseline:X=2"]
    )
    assert parsed == {Arm.BASELINE: {"X": "2"}, Arm.CANDIDATE: {"X": "a=b:c", "Y": ""}}


@pytest.mark.parametrize("address", ["s3://bucket/baselines", "file:///mnt/baselines"])
def test_an_address_of_an_archive_is_not_taken_for_a_path(tmp_path: Path, address: str) -> None:
    (tmp_path / "ci-doctor.toml").write_text(f'[correctness]\narchive = "{address}"\n')
    loaded = load_config(tmp_path / "ci-doctor.toml", tmp_path)

    settings = read_settings(loaded, {}, {}, {arm: {} for arm in Arm})

    assert settings.archive == address
