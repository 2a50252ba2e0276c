# SPDX-License-Identifier: Apache-2.0
"""Pure. What is wrong with `[notify]` beyond its types; no sentence repeats a value that may be a secret."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ci_doctor.buildkite.rest_address import is_encrypted, is_local
from ci_doctor.notify.settings import GithubSettings, NotifySettings, WebhookSettings
from ci_doctor.system.secrets.tokens import token_spans

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_NO_NAME = "is not the name of an environment variable"
_NAME_HINT = "name the variable that holds it; the value itself stands in no file"


class SettingMistake(Struct, frozen=True):
    """keys: the place within `[notify]`. message, hint: for a person."""

    keys: tuple[str, ...]
    message: str
    hint: str


def mistakes(settings: NotifySettings) -> Iterator[SettingMistake]:
    """Everything that makes a message impossible, whatever the machine."""
    if settings.github is not None:
        yield from _of_github(settings.github)
    for name, webhook in (("slack", settings.slack), ("webhook", settings.webhook)):
        if webhook is not None:
            yield from _of_webhook(name, webhook)


def is_repository(text: str) -> bool:
    """Whether `text` is `owner/name`, and leads nowhere else in an address."""
    return _REPOSITORY.fullmatch(text) is not None and ".." not in text.split("/")


def may_be_sent_to(url: str) -> bool:
    """Whether a secret may go to `url`: by https, or to this machine, as in tests."""
    return is_encrypted(url) or is_local(url)


def _of_github(settings: GithubSettings) -> Iterator[SettingMistake]:
    yield from _of_secret("github", "token", settings.token_env, settings.token_file)
    if settings.repository is not None and not is_repository(settings.repository):
        yield SettingMistake(
            ("github", "repository"), "it is not `owner/name`", "write owner/name, without https://"
        )
    url = settings.api_url
    if url is not None and (not may_be_sent_to(url) or "@" in url):
        yield SettingMistake(
            ("github", "api_url"),
            "it is no https address without a user name",
            "write https://HOST/api/v3; the token is sent there",
        )


def _of_webhook(name: str, settings: WebhookSettings) -> Iterator[SettingMistake]:
    yield from _of_secret(name, "url", settings.url_env, settings.url_file)
    if settings.token_env is not None or settings.token_file is not None:
        yield from _of_secret(name, "token", settings.token_env, settings.token_file)


def _of_secret(
    name: str, secret: str, variable: str | None, file: str | None
) -> Iterator[SettingMistake]:
    key = f"{secret}_env"
    if (variable is None) is (file is None):
        problem = f"it has neither `{key}` nor `{secret}_file`"
        if file is not None:
            problem = f"it has both `{key}` and `{secret}_file`"
        yield SettingMistake((name,), problem, "give one of the two")
    elif variable is not None and not _is_variable(variable):
        yield SettingMistake((name, key), _NO_NAME, _NAME_HINT)


def _is_variable(text: str) -> bool:
    # `ghp_…` could be a name, too.
    return _VARIABLE.fullmatch(text) is not None and not any(token_spans(text.encode()))
