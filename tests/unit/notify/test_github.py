# SPDX-License-Identifier: Apache-2.0
"""One comment per step: made once, then changed; never made twice, and never one of somebody else."""

import pytest

from ci_doctor.model.facts.notify import Notification, NotifyState
from ci_doctor.notify.github import PullRequestComment
from ci_doctor.notify.pull_request import PullRequest
from ci_doctor.notify.secret import SecretValue
from tests.support.stand_in_github import APP, REPOSITORY, TOKEN, StandInGithub

MARKER = "<!-- ci-doctor:notify:0123 -->"
BODY = f"{MARKER}\n**✗ FAILED**\n"


def put(
    github: StandInGithub,
    body: str = BODY,
    *,
    token: str = TOKEN,
    number: int = 7,
    may_create: bool = True,
    account: str | None = APP,
) -> Notification:
    pull_request = PullRequest(api_url=github.url, repository=REPOSITORY, number=number)
    comment = PullRequestComment(pull_request, SecretValue(token), MARKER, 20.0, account)
    return comment.put(body, may_create=may_create)


def test_the_first_message_makes_a_comment_by_the_documented_request(
    github: StandInGithub,
) -> None:
    put_ = put(github)

    assert (put_.state, put_.address) == (NotifyState.SENT, github.comments[0]["html_url"])
    listed, posted = github.requests
    assert listed.path == f"/repos/{REPOSITORY}/issues/7/comments?per_page=100&page=1"
    assert (posted.method, posted.body) == ("POST", {"body": BODY})
    assert posted.headers["x-github-api-version"] == "2022-11-28"
    assert posted.headers["accept"] == "application/vnd.github+json"
    assert posted.headers["user-agent"].startswith("ci-doctor/")


def test_later_messages_change_it_and_the_same_one_changes_nothing(
    github: StandInGithub,
) -> None:
    states = [put(github).state, put(github, f"{MARKER}\n**✓ PASS**\n").state]
    states.append(put(github, f"{MARKER}\n**✓ PASS**").state)

    assert states == [NotifyState.SENT, NotifyState.EDITED, NotifyState.UNCHANGED]
    assert [each["body"] for each in github.comments] == [f"{MARKER}\n**✓ PASS**\n"]


def test_a_pass_makes_no_comment_and_changes_one_that_is_there(github: StandInGithub) -> None:
    assert put(github, may_create=False).state is NotifyState.SKIPPED
    assert github.posted == []

    github.put_comment(BODY)
    assert put(github, f"{MARKER} pass", may_create=False).state is NotifyState.EDITED


def test_a_comment_on_a_later_page_is_found_without_following_the_address_of_the_link(
    github: StandInGithub,
) -> None:
    for number in range(250):
        github.put_comment(f"comment {number}", "somebody", "User")
    github.put_comment(BODY)

    assert put(github, f"{MARKER} new").state is NotifyState.EDITED
    assert len(github.comments) == 251
    assert all(each.path.startswith(("/repos/", "/user")) for each in github.requests)


def test_a_comment_of_somebody_else_with_our_marker_is_not_changed(
    github: StandInGithub,
) -> None:
    github.put_comment(f"{MARKER}\nall is well", "stranger", "User")
    github.put_comment(f"> {BODY}", APP)

    assert put(github).state is NotifyState.SENT
    assert github.comments[0]["body"] == f"{MARKER}\nall is well"
    assert len(github.comments) == 3


def test_a_comment_of_another_bot_with_our_marker_is_not_changed(github: StandInGithub) -> None:
    github.put_comment(f"{MARKER} copied", "echo-helper[bot]")

    assert put(github).state is NotifyState.SENT
    assert [each["body"] for each in github.comments] == [f"{MARKER} copied", BODY]
    assert put(github, f"{MARKER} new").state is NotifyState.EDITED
    assert [each["body"] for each in github.comments] == [f"{MARKER} copied", f"{MARKER} new"]


def test_without_a_known_account_there_is_one_comment_and_no_change_of_it(
    github: StandInGithub,
) -> None:
    github.put_comment(f"{MARKER} copied", "stranger", "User")
    assert put(github, account=None).state is NotifyState.SENT

    again = put(github, f"{MARKER} new", account=None)

    assert again.state is NotifyState.FAILED
    assert "`account` in [notify.github]" in (again.reason or "")
    assert [each["body"] for each in github.comments] == [f"{MARKER} copied", BODY]


def test_an_account_that_cannot_be_asked_for_now_makes_no_second_comment(
    github: StandInGithub,
) -> None:
    github.put_comment(BODY)
    github.replies[:] = [None, 500, 500]

    assert put(github).state is NotifyState.FAILED
    assert github.posted == []


def test_a_persons_token_changes_the_comment_of_that_person(github: StandInGithub) -> None:
    github.login = "robot-account"
    github.put_comment(f"{MARKER} a", "stranger", "User")
    github.put_comment(f"{MARKER} b", "robot-account", "User")

    assert put(github).state is NotifyState.EDITED
    assert [each["body"] for each in github.comments] == [f"{MARKER} a", BODY]


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ([401], "the token is not valid"),
        ([403], "may not write comments"),
        ([(403, {"x-ratelimit-remaining": "0"})], "the limit of requests is reached"),
        ([(403, {"retry-after": "60"})], "asks to wait 60 s, which is too long"),
        ([(429, {"retry-after": "3600"})], "asks to wait 3600 s"),
        ([404], "no such pull request"),
        ([500, 500], "HTTP 500"),
        ([(301, {"location": "https://elsewhere.invalid/"})], "a redirect is not followed"),
        ([200], "not that of GitHub's API"),
        ([None, 422], "locked"),
        ([None, 502], "HTTP 502"),
    ],
)
def test_a_failure_is_a_reason_and_makes_no_second_comment(
    github: StandInGithub, replies: list[int | tuple[int, dict[str, str]] | str | None], words: str
) -> None:
    github.replies[:] = replies

    result = put(github)

    assert result.state is NotifyState.FAILED
    assert words in (result.reason or "")
    assert TOKEN not in repr(result)
    assert len(github.posted) <= 1


def test_a_list_that_breaks_off_makes_no_second_comment(github: StandInGithub) -> None:
    for number in range(101):
        github.put_comment(f"comment {number}")
    github.put_comment(BODY)
    github.replies[:] = [None, 500, 500]

    assert put(github).state is NotifyState.FAILED
    assert github.posted == []


def test_a_short_wait_that_github_asks_for_is_kept(github: StandInGithub) -> None:
    github.replies[:] = [None, (429, {"retry-after": "0"})]

    assert put(github).state is NotifyState.SENT
    assert len(github.comments) == 1


def test_a_service_that_asks_to_wait_again_and_again_is_left(github: StandInGithub) -> None:
    github.replies[:] = [(429, {"retry-after": "0"})] * 5

    assert put(github).state is NotifyState.FAILED
    assert len(github.requests) == 2


def test_a_wrong_token_is_not_repeated(github: StandInGithub) -> None:
    result = put(github, token="ghs_wrong")

    assert result.reason == "HTTP 401: the token is not valid"
