# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[notify]` section. It names variables and files; no key holds a secret itself."""

from typing import Literal

from msgspec import Struct

NotifiedVerdict = Literal[
    "pass",
    "regression",
    "failed",
    "flaky",
    "nondeterministic",
    "infra",
    "inconclusive",
    "void",
    "error",
]
# Without `flaky`, which passes, `infra`, which is retried, and `nondeterministic`, which soft-fails.
DEFAULT_ON: tuple[NotifiedVerdict, ...] = ("regression", "failed", "inconclusive", "void", "error")
DEFAULT_TIMEOUT = "8s"
MOST_SECONDS = 10.0


class GithubSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A comment on the pull request.

    token_env: the name of the variable that holds the token. token_file: a file that holds it.
    repository: `owner/name`; None for the one of the job. api_url: of GitHub Enterprise; None for
    $GITHUB_API_URL, else github.com. account: who writes with the token if that is one of an app;
    None for GitHub Actions' own on GitHub Actions. on: verdicts that make a comment; any verdict changes one that
    is there.
    """

    token_env: str | None = None
    token_file: str | None = None
    repository: str | None = None
    api_url: str | None = None
    account: str | None = None
    on: tuple[NotifiedVerdict, ...] = DEFAULT_ON


class WebhookSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A POST to an address, which is a secret.

    url_env: the name of the variable that holds the address. url_file: a file that holds it.
    token_env, token_file: the same of a token for `Authorization: Bearer`; None sends none.
    """

    url_env: str | None = None
    url_file: str | None = None
    token_env: str | None = None
    token_file: str | None = None
    on: tuple[NotifiedVerdict, ...] = DEFAULT_ON


class NotifySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/notify.md).

    step: the name in a message; None for the label or key of the step. timeout: for all messages
    together. github, slack, webhook: where to; None for not there.
    """

    step: str | None = None
    timeout: str | float = DEFAULT_TIMEOUT
    github: GithubSettings | None = None
    slack: WebhookSettings | None = None
    webhook: WebhookSettings | None = None


def is_off(settings: NotifySettings) -> bool:
    """Whether nothing is to be sent anywhere."""
    return settings.github is None and settings.slack is None and settings.webhook is None
