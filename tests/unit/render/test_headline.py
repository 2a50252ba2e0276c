# SPDX-License-Identifier: Apache-2.0
"""Every ending has its own first word."""

import pytest

from ci_doctor.model.outcome import About, Report, Verdict
from ci_doctor.render.formatting import Tone, headline, links, tone
from tests.support.builders import a_finding, a_report


def word(report: Report) -> str | None:
    head = headline(report)
    return head.word if head else None


def test_every_verdict_and_its_absence_has_a_word_of_its_own() -> None:
    words = {verdict: word(a_report(verdict)) for verdict in (*Verdict, None)}
    assert words.pop(None) == "ERROR"
    assert words == {verdict: verdict.upper() for verdict in Verdict}


def test_worse_verdict_keeps_its_word_beside_an_error() -> None:
    assert word(a_report(Verdict.INFRA, findings=(a_finding(),))) == "INFRA"


def test_where_nothing_was_judged_there_is_no_headline() -> None:
    report = a_report(None, error=None, exit_code=0)

    assert headline(report) is None
    assert tone(report) is Tone.INFO


COMMIT = "223781099f2c1b0e5d6a7b8c9d0e1f2a3b4c5d6e"


@pytest.mark.parametrize(
    ("repository", "commit", "branch"),
    [
        ("https://github.com/o/r", f"/commit/{COMMIT}", "/tree/fix/a%20b"),
        ("https://gitlab.example.org/g/s/r", f"/-/commit/{COMMIT}", "/-/tree/fix/a%20b"),
        ("https://bitbucket.org/o/r", f"/commits/{COMMIT}", "/branch/fix/a%20b"),
    ],
)
def test_each_host_has_its_paths(repository: str, commit: str, branch: str) -> None:
    found = links(About(repository=repository, commit=COMMIT, branch="fix/a b"))

    assert [(each.text, each.address) for each in found] == [
        (COMMIT[:12], repository + commit),
        ("fix/a b", repository + branch),
    ]


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "https://user:pw@host/x",
        'https://host/"onclick="x',
        "https://host/a b",
        "https://[",
        "//host/x",
        "",
    ],
)
def test_only_a_plain_web_address_is_a_link(address: str) -> None:
    about = About(build=1, build_url=address, repository=address, commit=COMMIT, branch="main")

    assert [each.address for each in links(about)] == [None, None, None]


def test_what_is_no_commit_is_no_link() -> None:
    (link,) = links(About(repository="https://github.com/o/r", commit="HEAD"))

    assert link.address is None


def test_what_is_unknown_is_left_out() -> None:
    assert links(About()) == ()
