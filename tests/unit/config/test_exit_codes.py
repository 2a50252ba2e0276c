# SPDX-License-Identifier: Apache-2.0
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.config.decoding import read_exit_codes
from ci_doctor.config.loading import Config
from ci_doctor.errors import ConfigError
from ci_doctor.model.verdict import EXIT_CODES, Verdict


def table(text: str) -> Config:
    return Config(path=Path("ci-doctor.toml").absolute(), tables=tomllib.loads(text), text=text)


def test_by_default_they_are_those_of_the_verdicts() -> None:
    codes, origins = read_exit_codes(table(""), {})
    assert codes == {
        str(verdict): int(EXIT_CODES[verdict]) for verdict in Verdict if verdict != "pass"
    }
    assert set(origins.values()) == {"default"}


def test_a_repository_has_its_own() -> None:
    codes, origins = read_exit_codes(
        table("[exit-codes]\ninfra = 255\n"), {"CI_DOCTOR_EXIT_CODES_VOID": "1"}
    )
    assert (codes["infra"], codes["void"], codes["regression"]) == (255, 1, 1)
    assert (origins["infra"], origins["void"]) == (
        "ci-doctor.toml:2",
        "environment CI_DOCTOR_EXIT_CODES_VOID",
    )


@given(st.integers(-300, 300))
def test_only_what_agent_and_shell_leave_to_us_can_serve(code: int) -> None:
    config = table(f"[exit-codes]\nvoid = {code}\n")
    if (1 <= code <= 124 or code == 255) and code not in {2, 70}:
        assert read_exit_codes(config, {})[0]["void"] == code
    else:
        with pytest.raises(ConfigError, match=r"ci-doctor\.toml:2: void = "):
            read_exit_codes(config, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("infra = 1", "infra and regression share the code 1"),
        ("regression = 75", "infra and regression share the code 75"),
        ("regression = 85", "nondeterministic and regression share the code 85"),
        ("infra = true", "infra: expected `int`, got `bool`"),
        ("infra = '75'", "infra: expected `int`, got `str`"),
        ("infar = 75", "unknown key `infar`"),
        ("pass = 3", "unknown key `pass`"),
        ("failed = 75", "infra and failed share the code 75"),
        ("failed = 85", "nondeterministic and failed share the code 85"),
    ],
)
def test_what_would_deceive_a_pipeline_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^ci-doctor.toml:2: {message}") as caught:
        read_exit_codes(table(f"[exit-codes]\n{text}\n"), {})
    assert caught.value.hint


def test_failed_may_share_the_code_of_regression() -> None:
    codes, _ = read_exit_codes(table("[exit-codes]\nregression = 3\nfailed = 3\n"), {})

    assert (codes["regression"], codes["failed"]) == (3, 3)


@pytest.mark.parametrize("text", ["²", "x", "1.5", "2"])
def test_a_variable_that_cannot_serve_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="CI_DOCTOR_EXIT_CODES_INFRA"):
        read_exit_codes(table(""), {"CI_DOCTOR_EXIT_CODES_INFRA": text})
