# SPDX-License-Identifier: Apache-2.0
"""Text of others stays text in each form: it mentions nobody, links nothing, and ends no line."""

import json

import cmarkgfm
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.model.about import About
from ci_doctor.notify.forms import comment_body, json_body, slack_body
from ci_doctor.notify.notice import Notice

MARKER = "<!-- ci-doctor:notify:0123456789abcdef0123456789abcdef -->"
URL = "https://buildkite.com/acme/serving/builds/812#j1"


def html_of(notice: Notice) -> str:
    """As GitHub renders it, before its sanitiser takes anything out."""
    return str(
        cmarkgfm.github_flavored_markdown_to_html(
            comment_body(notice), options=cmarkgfm.Options.CMARK_OPT_UNSAFE
        )
    )


def a_notice(cause: str, subject: str = "e2e") -> Notice:
    return Notice(marker=MARKER, verdict="failed", subject=subject, cause=cause, url=URL)


def test_a_comment_is_a_marker_and_three_lines() -> None:
    html = html_of(a_notice("port 8000 is taken"))

    assert comment_body(a_notice("x")).startswith(f"{MARKER}\n")
    assert html.count("<br />") == 2
    assert "<strong>✗ FAILED</strong> · <code>e2e</code>" in html
    assert "<code>port 8000 is taken</code>" in html
    assert f'<a href="{URL}">' in html


@pytest.mark.parametrize(
    "text",
    [
        "@acme/owners look",
        "fixes #12 and acme/serving#13",
        "` @team ` and ``x``",
        "<!-- ci-doctor:notify:x --> <img src=x onerror=alert(1)>",
        "a | b | @team",
        "[link](https://evil.example)",
        "--> <b>",
    ],
)
def test_markdown_of_a_log_is_code_and_nothing_else(text: str) -> None:
    html = html_of(a_notice(text, subject=text))
    without_code = "".join(part.rpartition("</code>")[2] for part in html.split("<code>"))

    # GitHub looks for mentions and issues outside of code alone.
    assert "@" not in without_code
    assert "#1" not in without_code
    assert "evil" not in without_code
    assert html.count("<a ") == 1
    assert "<img" not in html


def test_slack_gets_three_lines_that_call_nobody() -> None:
    cause = "<!here> <@U1> @channel & <https://evil.example|x>"

    message = json.loads(slack_body(a_notice(cause)))

    lines = message["text"].split("\n")
    assert len(lines) == 3
    assert "<" not in message["text"]
    assert "&lt;!here&gt;" in lines[1]
    assert "@channel" not in message["text"]
    assert "&amp;" in lines[1]
    assert lines[2] == URL
    assert message["mrkdwn"] is False


def test_plain_json_has_the_lines_and_their_parts() -> None:
    message = json.loads(json_body(a_notice("port 8000 is taken @all")))

    assert message["schema"] == "ci-doctor/notify/1"
    assert message["text"].split("\n")[0] == "✗ FAILED · e2e"
    assert (message["verdict"], message["url"]) == ("failed", URL)
    assert "@all" not in message["text"]
    assert message["cause"] == "port 8000 is taken @all"


def test_what_a_build_is_called_is_cut_and_cannot_act() -> None:
    about = About(branch="b\x1b[31m" + "x" * 5000, commit="4fe1a2b")

    message = json.loads(json_body(replace(a_notice("x"), about=about)))

    assert len(message["branch"]) <= 300
    assert message["branch"].isprintable()
    assert message["commit"] == "4fe1a2b"


printable_line = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1)


@given(printable_line)
def test_no_line_of_others_makes_a_mention_or_another_line(text: str) -> None:
    cause = text.strip() or "x"
    html = html_of(a_notice(cause))

    assert html.count("<code>") == 2
    assert html.count("<br />") == 2
    slack = json.loads(slack_body(a_notice(cause)))["text"]
    assert slack.count("\n") == 2
    assert not any(character in slack for character in "<>")
