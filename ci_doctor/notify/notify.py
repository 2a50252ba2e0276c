# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: sends a notice everywhere at once, within one time. Nothing is raised for a failure."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.model.facts.notify import Notification, NotifyState
from ci_doctor.notify.exchange import ServiceExchange, reason_of
from ci_doctor.notify.forms import comment_body, json_body, slack_body
from ci_doctor.notify.github import ACTIONS_ACCOUNT, SERVICE, PullRequestComment
from ci_doctor.notify.mistakes import may_be_sent_to
from ci_doctor.notify.notice import Notice
from ci_doctor.notify.pull_request import read_pull_request
from ci_doctor.notify.secret import SecretValue, read_secret
from ci_doctor.notify.settings import GithubSettings, NotifySettings, WebhookSettings
from ci_doctor.system.secrets.redaction import Redactor

Body = Callable[[Notice], bytes]
Send = Callable[[], Notification]
_BODIES: Final[Mapping[str, Body]] = {"slack": slack_body, "webhook": json_body}
# To make a thread and to read what it has left.
_MARGIN_S: Final = 0.5


class NotifyRequest(Struct, frozen=True, kw_only=True):
    """What to send, and where; files of `settings` are paths from the working directory."""

    notice: Notice
    settings: NotifySettings
    environ: Mapping[str, str]
    limit_s: float


def notify(request: NotifyRequest) -> tuple[Notification, ...]:
    """Send the notice of `request`; one result for each service of the settings, in their order."""
    sends: dict[str, Send | Notification] = {}
    if request.settings.github is not None:
        sends[SERVICE] = _to_github(request, request.settings.github)
    for name, webhook in (
        ("slack", request.settings.slack),
        ("webhook", request.settings.webhook),
    ):
        if webhook is not None:
            sends[name] = _to_webhook(request, webhook, name)
    return _all_at_once(sends, request.limit_s)


def _all_at_once(
    sends: Mapping[str, Send | Notification], limit_s: float
) -> tuple[Notification, ...]:
    """A thread for each, left behind at the end of the time: one that hangs holds up no other."""
    results: dict[str, Notification] = {}
    threads = []
    for name, send in sends.items():
        if isinstance(send, Notification):
            results[name] = send
            continue
        thread = threading.Thread(target=_keep, args=(results, name, send), daemon=True)
        thread.start()
        threads.append(thread)
    end = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = f"no whole answer within {limit_s:g} s"
    return tuple(results.get(name) or _failed(name, late) for name in sends)


def _keep(results: dict[str, Notification], name: str, send: Send) -> None:
    try:
        results[name] = send()
    # A bug of ours: the other messages, and the job, do not depend on this one.
    except Exception as error:  # noqa: BLE001
        results[name] = _failed(name, f"a bug in ci-doctor: {type(error).__name__}")


def _to_github(request: NotifyRequest, settings: GithubSettings) -> Send | Notification:
    pull_request = read_pull_request(settings, request.environ)
    if isinstance(pull_request, str):
        return _skipped(SERVICE, pull_request)
    token = _secret(request, settings.token_env, settings.token_file)
    if isinstance(token, str):
        return _skipped(SERVICE, token)
    if not may_be_sent_to(pull_request.api_url):
        return _failed(SERVICE, "the address of the API is no https address")
    notice = _without(request.notice, token)
    may_create = notice.verdict in settings.on
    limit_s = request.limit_s - _MARGIN_S
    account = settings.account
    if account is None and request.environ.get("GITHUB_ACTIONS") == "true":
        account = ACTIONS_ACCOUNT

    def send() -> Notification:
        comment = PullRequestComment(pull_request, token, notice.marker, limit_s, account)
        return comment.put(comment_body(notice), may_create=may_create)

    return send


def _to_webhook(
    request: NotifyRequest, settings: WebhookSettings, name: str
) -> Send | Notification:
    if request.notice.verdict not in settings.on:
        return _skipped(name, "the verdict is not in `on`")
    url = _secret(request, settings.url_env, settings.url_file)
    if isinstance(url, str):
        return _skipped(name, url)
    headers = {}
    secrets = [url]
    if settings.token_env is not None or settings.token_file is not None:
        token = _secret(request, settings.token_env, settings.token_file)
        if isinstance(token, str):
            return _skipped(name, token)
        headers["Authorization"] = f"Bearer {token.value}"
        secrets.append(token)
    if not may_be_sent_to(url.value):
        return _failed(name, "its address is no https address")
    content = _BODIES[name](_without(request.notice, *secrets))

    def send() -> Notification:
        exchange = ServiceExchange(headers, request.limit_s - _MARGIN_S)
        reply = exchange.send("POST", url.value, content)
        if reply.problem is not None:
            return _failed(name, reason_of(reply))
        return Notification(to=name, state=NotifyState.SENT)

    return send


def _secret(request: NotifyRequest, variable: str | None, file: str | None) -> SecretValue | str:
    path = None if file is None else Path(file)
    return read_secret(variable, path, request.environ)


def _without(notice: Notice, *secrets: SecretValue) -> Notice:
    """The notice without these secrets: a file's are in no environment."""
    hidden: Notice = Redactor([each.value for each in secrets]).value(notice)
    return hidden


def _skipped(name: str, reason: str) -> Notification:
    return Notification(to=name, state=NotifyState.SKIPPED, reason=reason)


def _failed(name: str, reason: str) -> Notification:
    return Notification(to=name, state=NotifyState.FAILED, reason=reason)
