"""The plugin's option `cache`."""

import pytest

from ci_doctor.buildkite.plugin import (
    CacheOption,
    cache_option,
    effect_arguments,
    restore_arguments,
    save_arguments,
)
from ci_doctor.errors import UsageError

FULL = CacheOption(
    store="s3://b",
    families=("triton", "mine=/c"),
    trust="signed",
    key="key",
    allowed_signers="signers",
    budget="30s",
    strict=True,
)
SHARED = ["--config", "c.toml", "--store", "s3://b", "--family", "triton", "--family", "mine=/c"]
REST = ["--allowed-signers", "signers", "--budget", "30s"]


def test_each_command_gets_the_options_that_it_has() -> None:
    assert restore_arguments(FULL, "c.toml") == [*SHARED, *REST, "--trust", "signed", "--strict"]
    assert save_arguments(FULL, "c.toml") == [*SHARED, *REST, "--key", "key"]
    assert effect_arguments(FULL, None) == ["--effect", "--family", "triton", "--family", "mine=/c"]


@pytest.mark.parametrize(("value", "read"), [(True, CacheOption()), ("true", CacheOption())])
def test_true_takes_all_from_the_configuration(value: object, read: CacheOption) -> None:
    assert cache_option("cache", value) == read


def test_false_is_no_cache() -> None:
    assert cache_option("cache", False) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"stor": "x"}, "no key `stor`"),
        ({"store": ""}, "is no text"),
        ({"strict": "perhaps"}, "neither true nor false"),
        (["triton"], "neither true, false nor a mapping"),
    ],
)
def test_what_is_no_option_is_refused(value: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        cache_option("cache", value)


def test_a_budget_may_be_a_number() -> None:
    assert cache_option("cache", {"budget": 30}) == CacheOption(budget="30")
