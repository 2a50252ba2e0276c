# SPDX-License-Identifier: Apache-2.0
"""What `[notify]` may hold: names of variables and files, https addresses, and never a secret."""

import pytest

from ci_doctor.notify.mistakes import mistakes
from ci_doctor.notify.settings import GithubSettings, NotifySettings, WebhookSettings

TOKEN = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
GOOD = GithubSettings(token_env="PR_COMMENT_TOKEN")


def found(settings: NotifySettings) -> list[tuple[str, ...]]:
    return [each.keys for each in mistakes(settings)]


@pytest.mark.parametrize(
    "github",
    [
        GOOD,
        GithubSettings(token_file="token", repository="acme/serving"),
        GithubSettings(token_env="T", api_url="https://github.acme.example/api/v3"),
        GithubSettings(token_env="T", api_url="http://127.0.0.1:8080"),
    ],
)
def test_names_files_and_https_addresses_are_right(github: GithubSettings) -> None:
    assert found(NotifySettings(github=github)) == []


@pytest.mark.parametrize(
    ("github", "keys"),
    [
        (GithubSettings(), ("github",)),
        (GithubSettings(token_env="A", token_file="b"), ("github",)),
        (GithubSettings(token_env="not a name"), ("github", "token_env")),
        (GithubSettings(token_env=TOKEN), ("github", "token_env")),
        (GithubSettings(token_env="T", repository="serving"), ("github", "repository")),
        (GithubSettings(token_env="T", repository="../etc"), ("github", "repository")),
        (GithubSettings(token_env="T", repository="a/b/c"), ("github", "repository")),
        (GithubSettings(token_env="T", api_url="http://github.com"), ("github", "api_url")),
        (GithubSettings(token_env="T", api_url="https://u:p@github.com"), ("github", "api_url")),
        (GithubSettings(token_env="T", api_url="api.github.com"), ("github", "api_url")),
    ],
)
def test_each_mistake_is_named_at_its_key(github: GithubSettings, keys: tuple[str, ...]) -> None:
    assert found(NotifySettings(github=github)) == [keys]


def test_a_token_in_the_place_of_a_name_is_not_repeated() -> None:
    (mistake,) = mistakes(NotifySettings(github=GithubSettings(token_env=TOKEN)))

    assert TOKEN not in f"{mistake.message} {mistake.hint}"


def test_an_address_in_the_place_of_a_name_is_a_mistake_of_each_webhook() -> None:
    wrong = WebhookSettings(url_env="https://hooks.slack.com/services/T/B/x")
    settings = NotifySettings(slack=wrong, webhook=WebhookSettings(url_env="A", token_env="b-c"))

    assert found(settings) == [("slack", "url_env"), ("webhook", "token_env")]
