# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: one comment on a pull request, which later messages of the same step change.

https://docs.github.com/rest/issues/comments: a pull request is an issue, and its comments are listed
by ascending id. The fine-grained permission is "Pull requests: write" or "Issues: write".
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.buildkite.bounded_request import HttpReply
from ci_doctor.model.facts.notify import Notification, NotifyState
from ci_doctor.notify.exchange import ServiceExchange, reason_of
from ci_doctor.notify.pull_request import PullRequest
from ci_doctor.notify.secret import SecretValue

SERVICE: Final = "github"
# Who writes with $GITHUB_TOKEN: docs.github.com/actions/concepts/security/github_token.
ACTIONS_ACCOUNT: Final = "github-actions[bot]"
_VERSION: Final = "2022-11-28"
_PER_PAGE: Final = 100  # the API's own limit
_MOST_PAGES: Final = 10
_NEXT: Final = re.compile(r'rel="?next"?')
_MEANINGS: Final = {
    401: "the token is not valid",
    403: "the token may not write comments on pull requests there",
    404: "there is no such pull request, or the token may not see it",
    410: "the repository has no issues or comments",
    422: "the conversation is locked, or the comment is refused",
}
# GET /user, with the token of an app: https://docs.github.com/rest/users/users.
_NO_USER: Final = frozenset((403, 404))
_UNKNOWN: Final = (
    "a comment of {} has the mark of this step, and the token cannot say whether it is its own; "
    "name the account of the token: `account` in [notify.github]"
)


class _User(Struct, frozen=True):
    login: str = ""
    type: str = ""


class _Comment(Struct, frozen=True):
    id: int
    body: str | None = None
    user: _User | None = None
    html_url: str | None = None


class _RefusedError(Exception):
    """A reply that ends the exchange."""


class PullRequestComment:
    """The comment of one step.

    marker: how it begins. app_account: who writes with the token if that is one of an app, which
    cannot ask for its own name; None if nobody knows.
    """

    def __init__(
        self,
        pull_request: PullRequest,
        token: SecretValue,
        marker: str,
        limit_s: float,
        app_account: str | None = None,
    ) -> None:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token.value}",
            "X-GitHub-Api-Version": _VERSION,
        }
        self._exchange = ServiceExchange(headers, limit_s)
        self._api = pull_request.api_url
        repository = f"{self._api}/repos/{pull_request.repository}"
        self._all = f"{repository}/issues/{pull_request.number}/comments"
        self._each = f"{repository}/issues/comments"
        self._marker = marker
        self._app_account = app_account
        self._user: HttpReply | None = None

    def put(self, body: str, *, may_create: bool) -> Notification:
        """Put `body` into the step's comment; make one if there is none and `may_create`."""
        try:
            comment = self._own_comment()
            if comment is None and not may_create:
                reason = "the verdict is not in `on`, and there is no comment to change"
                return Notification(to=SERVICE, state=NotifyState.SKIPPED, reason=reason)
            content = msgspec.json.encode({"body": body})
            if comment is None:
                return self._sent("POST", self._all, content, NotifyState.SENT)
            if comment.body is not None and comment.body.strip() == body.strip():
                return Notification(
                    to=SERVICE, state=NotifyState.UNCHANGED, address=comment.html_url
                )
            return self._sent("PATCH", f"{self._each}/{comment.id}", content, NotifyState.EDITED)
        except _RefusedError as error:
            return Notification(to=SERVICE, state=NotifyState.FAILED, reason=str(error))

    def _sent(self, method: str, url: str, content: bytes, state: NotifyState) -> Notification:
        reply = _checked(self._exchange.send(method, url, content))
        try:
            address = msgspec.json.decode(reply.body, type=_Comment).html_url
        except (msgspec.DecodeError, UnicodeError):
            address = None  # it is written all the same
        return Notification(to=SERVICE, state=state, address=address)

    def _own_comment(self) -> _Comment | None:
        """Our comment; raises _RefusedError if not all comments could be read, so that none is made twice."""
        for page in range(1, _MOST_PAGES + 1):
            url = f"{self._all}?per_page={_PER_PAGE}&page={page}"
            reply = _checked(self._exchange.get(url))
            for comment in _listed(reply):
                if self._is_ours(comment):
                    return comment
            # Its address is not used: the token would go wherever it leads.
            if not _NEXT.search(reply.headers.get("link", "")):
                return None
        raise _RefusedError(f"the pull request has more than {_MOST_PAGES * _PER_PAGE:,} comments")

    def _is_ours(self, comment: _Comment) -> bool:
        """Whether it has our marker, and nobody else can have written it.

        Anybody can copy a marker, another bot too, and could change the comment later. Raises
        _RefusedError if it may be ours and nobody knows: a second one would stay beside it.
        """
        if comment.user is None or not (comment.body or "").startswith(self._marker):
            return False
        if self._user is None:
            self._user = self._exchange.get(f"{self._api}/user")
        if not _is_of_app(self._user):
            return comment.user.login == _login_in(_checked(self._user).body)
        # The comments of an app are a bot's.
        if self._app_account is None and comment.user.type == "Bot":
            raise _RefusedError(_UNKNOWN.format(comment.user.login))
        # A person may write the name in another case.
        return comment.user.login.lower() == (self._app_account or "").lower()


def _checked(reply: HttpReply) -> HttpReply:
    if reply.problem is not None:
        raise _RefusedError(reason_of(reply, _MEANINGS))
    return reply


def _is_of_app(user: HttpReply) -> bool:
    """Whether GET /user was refused because the token is one of an app, and not by a limit."""
    return user.status in _NO_USER and user.headers.get("x-ratelimit-remaining") != "0"


def _listed(reply: HttpReply) -> list[_Comment]:
    try:
        return msgspec.json.decode(reply.body, type=list[_Comment])
    except (msgspec.DecodeError, UnicodeError):
        raise _RefusedError("the answer is not that of GitHub's API") from None


def _login_in(body: bytes) -> str | None:
    try:
        return msgspec.json.decode(body, type=_User).login or None
    except (msgspec.DecodeError, UnicodeError):
        return None
