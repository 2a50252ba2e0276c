# SPDX-License-Identifier: Apache-2.0
"""Messages to all services at once: by https alone, within a time, and nothing is raised for a failure."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.model.facts.notify import Notification, NotifyState
from ci_doctor.notify.notice import Notice
from ci_doctor.notify.notify import NotifyRequest, notify
from ci_doctor.notify.settings import GithubSettings, NotifySettings, WebhookSettings
from tests.support.stand_in_github import REPOSITORY, TOKEN, StandInGithub, running_github

HOOK = WebhookSettings(url_env="HOOK_URL")
LIMIT_S = 20.0
SHORT_S = 1.0


def a_notice(verdict: str = "failed", cause: str = "port 8000 is taken") -> Notice:
    return Notice(marker="<!-- m -->", verdict=verdict, subject="e2e", cause=cause)


def send(
    settings: NotifySettings,
    environ: dict[str, str],
    *,
    notice: Notice | None = None,
    limit_s: float = LIMIT_S,
) -> tuple[Notification, ...]:
    return notify(
        NotifyRequest(
            notice=notice or a_notice(),
            settings=settings,
            environ=environ,
            limit_s=limit_s,
        )
    )


def hook(url: str, *, limit_s: float = LIMIT_S) -> Notification:
    (result,) = send(NotifySettings(webhook=HOOK), {"HOOK_URL": url}, limit_s=limit_s)
    return result


def on_pull_request(github: StandInGithub) -> tuple[GithubSettings, dict[str, str]]:
    settings = GithubSettings(token_env="PR_TOKEN", repository=REPOSITORY, api_url=github.url)
    return settings, {"BUILDKITE_PULL_REQUEST": "7", "PR_TOKEN": TOKEN}


def test_each_service_gets_its_own_form(github: StandInGithub) -> None:
    settings, environ = on_pull_request(github)
    hooks = {"SLACK": f"{github.url}/hook/slack", "HOOK_URL": f"{github.url}/hook/plain"}
    slack = WebhookSettings(url_env="SLACK")

    sent = send(NotifySettings(github=settings, slack=slack, webhook=HOOK), {**environ, **hooks})

    assert [(each.to, each.state) for each in sent] == [
        ("github", NotifyState.SENT),
        ("slack", NotifyState.SENT),
        ("webhook", NotifyState.SENT),
    ]
    bodies = {each.path: each.body for each in github.requests if each.method == "POST"}
    assert set(bodies["/hook/slack"]) == {"text", "mrkdwn", "unfurl_links", "unfurl_media"}
    assert bodies["/hook/plain"]["schema"] == "ci-doctor/notify/1"
    assert len(github.comments) == 1


def test_a_webhook_may_have_a_token_and_an_address_in_files(
    github: StandInGithub, tmp_path: Path
) -> None:
    (tmp_path / "url").write_text(f"{github.url}/hook\n")
    (tmp_path / "token").write_text("t-123456\n")
    webhook = WebhookSettings(url_file=str(tmp_path / "url"), token_file=str(tmp_path / "token"))

    (sent,) = send(NotifySettings(webhook=webhook), {})

    assert sent.state is NotifyState.SENT
    assert github.requests[0].headers["authorization"] == "Bearer t-123456"


@pytest.mark.parametrize(
    ("account", "variables", "state"),
    [
        ("Our-App[bot]", {}, NotifyState.EDITED),
        (None, {}, NotifyState.FAILED),
        # Its own token is of another account.
        (None, {"GITHUB_ACTIONS": "true"}, NotifyState.SENT),
    ],
)
def test_a_comment_of_an_app_is_changed_only_by_that_app(
    github: StandInGithub, account: str | None, variables: dict[str, str], state: NotifyState
) -> None:
    settings, environ = on_pull_request(github)
    github.put_comment("<!-- m -->", "our-app[bot]")

    named = replace(settings, account=account)
    (sent,) = send(NotifySettings(github=named), {**environ, **variables})

    assert sent.state is state, sent


def test_a_secret_of_a_message_is_not_sent(github: StandInGithub) -> None:
    settings, environ = on_pull_request(github)
    notice = a_notice(cause=f"curl -H 'Authorization: Bearer {TOKEN}' failed")

    send(NotifySettings(github=settings), environ, notice=notice)

    assert TOKEN not in github.comments[0]["body"]
    assert "[redacted]" in github.comments[0]["body"]


def test_what_cannot_be_sent_for_lack_of_a_secret_is_skipped_with_a_reason(
    github: StandInGithub,
) -> None:
    settings, environ = on_pull_request(github)
    # A fork's job has no secrets.
    sent = send(NotifySettings(github=settings, webhook=HOOK), {**environ, "PR_TOKEN": ""})

    assert [(each.state, each.reason) for each in sent] == [
        (NotifyState.SKIPPED, "$PR_TOKEN is not set"),
        (NotifyState.SKIPPED, "$HOOK_URL is not set"),
    ]
    assert github.requests == []


def test_a_verdict_that_nobody_asked_for_is_skipped(github: StandInGithub) -> None:
    only = WebhookSettings(url_env="HOOK_URL", on=("regression", "flaky"))
    environ = {"HOOK_URL": f"{github.url}/hook"}

    for verdict, state in (("failed", NotifyState.SKIPPED), ("flaky", NotifyState.SENT)):
        (sent,) = send(NotifySettings(webhook=only), environ, notice=a_notice(verdict))
        assert sent.state is state


@pytest.mark.parametrize(
    "url",
    ["http://hooks.example/x", "ftp://hooks.example/x", "hooks.example", "https://", "http://["],
)
def test_nothing_goes_anywhere_without_encryption(url: str) -> None:
    assert hook(url) == Notification(
        to="webhook", state=NotifyState.FAILED, reason="its address is no https address"
    )


def test_the_job_s_variable_names_no_api_without_encryption(github: StandInGithub) -> None:
    settings = GithubSettings(token_env="PR_TOKEN", repository=REPOSITORY)
    _, environ = on_pull_request(github)

    (sent,) = send(
        NotifySettings(github=settings), {**environ, "GITHUB_API_URL": "http://api.example"}
    )

    assert sent.reason == "the address of the API is no https address"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (500, "HTTP 500"),
        (404, "HTTP 404"),
        ((302, {"location": "https://elsewhere.invalid/"}), "a redirect is not followed"),
        ((307, {"location": "http://127.0.0.1:1/"}), "a redirect is not followed"),
        ((429, {"retry-after": "30"}), "asks to wait 30 s"),
        ("huge", "the answer is too large"),
    ],
)
def test_a_failure_is_a_reason_and_the_message_is_sent_once(
    github: StandInGithub, reply: int | tuple[int, dict[str, str]] | str, words: str
) -> None:
    github.replies[:] = [reply]

    result = hook(f"{github.url}/hook/secret-part")

    assert result.state is NotifyState.FAILED
    assert words in (result.reason or "")
    assert "secret-part" not in repr(result)
    assert len(github.requests) == 1


def test_a_service_that_hangs_holds_up_neither_the_job_nor_the_others(
    github: StandInGithub,
) -> None:
    settings, environ = on_pull_request(github)
    github.replies[:] = ["hang", "hang"]

    sent = send(
        NotifySettings(github=settings, webhook=HOOK),
        {**environ, "HOOK_URL": f"{github.url}/hook"},
        limit_s=SHORT_S,
    )

    assert [each.state for each in sent] == [NotifyState.FAILED, NotifyState.FAILED]
    assert all("no whole answer" in (each.reason or "") for each in sent)


def test_a_certificate_that_nobody_vouches_for_is_refused(
    github: StandInGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")

    result = hook(f"{github.url}/hook")

    assert "its certificate is not trusted (self-signed certificate" in (result.reason or "")
    assert github.requests == []


@pytest.fixture
def misnamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInGithub]:
    with running_github(tmp_path, name="192.0.2.1") as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        yield server


def test_a_certificate_of_another_name_is_refused(misnamed: StandInGithub) -> None:
    result = hook(f"{misnamed.url}/hook")

    assert "its certificate is not trusted (IP address mismatch" in (result.reason or "")


def test_a_server_without_tls_nobody_there_and_a_name_without_an_address_are_reasons() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert "no whole answer" in (
            hook(f"https://127.0.0.1:{port}/", limit_s=SHORT_S).reason or ""
        )
    assert hook(f"https://127.0.0.1:{port}/").reason == "no connection"
    # A resolver without a network may be silent, too.
    unknown = hook("https://nowhere.invalid/", limit_s=SHORT_S).reason or ""
    assert unknown in {"its name has no address", f"no whole answer within {SHORT_S:g} s"}
