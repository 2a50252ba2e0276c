# SPDX-License-Identifier: Apache-2.0
"""The annotation, put through a real CommonMark renderer and a real sanitizer: nothing breaks out, nothing is too long."""

import re
from html.parser import HTMLParser

import cmarkgfm
import nh3
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.model.outcome import (
    Attachment,
    Attempt,
    Evidence,
    Failure,
    Report,
    Verdict,
    text_table,
)
from ci_doctor.render import markdown
from ci_doctor.render.formatting import one_line, printable
from tests.support.builders import a_finding, a_report
from tests.unit.render.strategies import HOSTILE, TEXT, reports, whole

# As Buildkite documents it, and what its Markdown makes of the rest.
OURS = {"p", "span", "a", "pre", "code", "table", "details", "summary", "ul", "li", "thead", "tbody", "tr", "th", "td", "strong", "em"}  # fmt: skip
ALLOWED = OURS | {"div", "img", "h1", "h2", "h3", "h4", "h5", "h6", "ol"}


class Page(HTMLParser):
    """The tags of a page in order, its links, and its text by the tag that it stands in."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        assert {name for name, _ in attrs} <= {"href", "open", "lang", "class", "align"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another"
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def text(self) -> str:
        return "".join(text for _, text in self.texts)


def html_of(text: str) -> str:
    html: str = cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE)
    return html


def page_of(text: str) -> Page:
    """The page that `text` becomes, after holding it against the sanitizer: every tag is ours, and every tag survives."""
    html = html_of(text)
    page = Page(html)
    assert page.open == []
    assert set(page.tags) <= OURS | {f"/{tag}" for tag in OURS}
    attributes = {
        "a": {"href"},
        "details": {"open"},
        "pre": {"lang"},
        "code": {"class"},
        "th": {"align"},
        "td": {"align"},
    }
    clean = nh3.clean(
        html, tags=ALLOWED, attributes=attributes, url_schemes={"artifact", "mailto"}, link_rel=None
    )
    survivors = Page(clean)
    assert survivors.tags == page.tags
    assert survivors.links == page.links
    return page


def unspaced(text: str) -> str:
    return "".join(text.split())


@whole
@given(reports(), st.sampled_from([None, "", "ci-doctor-report"]))
def test_nothing_in_any_report_breaks_out(report: Report, artifacts: str | None) -> None:
    page = page_of(markdown.render(report, artifacts=artifacts))
    links = [link for link in page.links if not link.startswith("mailto:")]
    assert all(link.startswith("artifact://") for link in links)
    assert len(links) <= (0 if artifacts is None else len(report.attachments))
    assert page.tags.count("details") <= len(report.findings) + 1
    with_columns = [
        table
        for table in report.tables
        if table.rows and (table.columns or any(row.cells for row in table.rows))
    ]
    assert page.tags.count("table") == bool(report.attempts) + len(with_columns)


@given(TEXT)
def test_escaped_text_reads_as_it_was_written(text: str) -> None:
    line = one_line(printable(text))
    expected = unspaced(re.sub("(?<!`)`([^`\n]+)`(?!`)", r"\1", line))
    for written in (
        markdown.inline(line),
        f"- {markdown.inline(line)}",
        f"| |\n|---|\n| {markdown.inline(line)} |",
    ):
        page = Page(html_of(written))
        assert unspaced(page.text()) == expected
        assert set(page.tags) <= {*OURS, *(f"/{tag}" for tag in OURS)}
    assert unspaced(Page(f"<p>{markdown.summary(line)}</p>").text()) == expected


@pytest.mark.parametrize("hostile", HOSTILE)
def test_evidence_stays_inside_its_block(hostile: str) -> None:
    excerpt = f"before {hostile} after\n{hostile}\nlast"
    page = page_of(
        markdown.render(a_report(findings=(a_finding(evidence=(Evidence(excerpt=excerpt),)),)))
    )
    inside = "".join(text for tag, text in page.texts if tag == "code")
    assert unspaced(printable(excerpt)) in unspaced(inside)


def test_code_in_backticks_is_code() -> None:
    assert (
        markdown.inline("run `a|b *c*` or *d*") == r"run <code>a&#124;b &#42;c&#42;</code> or \*d\*"
    )
    assert markdown.inline("run `a *c*`") == "run `a *c*`"
    assert markdown.summary("run `a` <b>") == "run <code>a</code> &lt;b&gt;"


@whole
@given(reports(), st.integers(markdown.SMALLEST, 4000))
def test_no_budget_is_ever_exceeded(report: Report, max_bytes: int) -> None:
    shown = markdown.render(report, max_bytes=max_bytes)
    assert len(shown.encode()) <= max_bytes
    page_of(shown)


def large_report() -> Report:
    evidence = tuple(
        Evidence(file=f"logs/{number}.log", line=number, excerpt="在垫子上 ``` </details>\n" * 40)
        for number in range(1, 4)
    )
    return a_report(
        Verdict.REGRESSION,
        summary="在" * 3000,
        tables=tuple(
            text_table(title=f"Part {number}", lines=("one", "two")) for number in range(20)
        ),
        findings=tuple(
            a_finding(summary=f"finding {number}", evidence=evidence, remedy="run it")
            for number in range(30)
        ),
        attempts=tuple(
            Attempt(name=f"start {number}", outcome="answered", ok=True, duration_s=1)
            for number in range(50)
        ),
        attachments=tuple(Attachment(path=f"{number}.log", title="a log") for number in range(50)),
        reproduce="ci-doctor correctness",
    )


def test_every_budget_gives_whole_blocks_and_says_what_is_missing() -> None:
    report = large_report()
    whole = len(markdown.render(report, max_bytes=1 << 24).encode())
    budgets = [*range(512, 6000, 397), *range(6000, whole, whole // 15)]
    for budget in budgets:
        shown = markdown.render(report, max_bytes=budget)
        assert len(shown.encode()) <= budget
        page = page_of(shown)
        (tag, note) = page.texts[-2]
        assert tag == "em"
        assert note.startswith("Left out: ")
        assert note.endswith("; see report.json")


def test_evidence_is_the_first_to_go_and_findings_follow() -> None:
    report = large_report()
    tight, tighter = (markdown.render(report, max_bytes=budget) for budget in (18_000, 4_000))
    assert "finding 29" in tight
    assert "start 49" in tight
    assert re.fullmatch(
        r"\*Left out: \d+ kB of evidence; see report.json\*", tight.splitlines()[-1]
    )
    assert "finding 0" in tighter
    assert "finding 29" not in tighter
    assert re.search(
        r"Left out: \d+ findings, 50 attempts, 50 attachments, 1 command to reproduce it, \d+ kB of evidence;",
        tighter,
    )


def test_budget_that_holds_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="512 or more"):
        markdown.render(a_report(), max_bytes=511)


def test_one_endless_excerpt_does_not_push_out_the_others() -> None:
    evidence = (Evidence(excerpt="x" * 344_000), Evidence(excerpt="the second"))
    shown = markdown.render(a_report(findings=(a_finding(evidence=evidence),)))
    assert "… 340 kB more in report.json" in shown
    assert "the second" in shown


def test_at_most_ten_artifacts_are_linked_and_none_outside_the_report() -> None:
    outside = (
        Attachment(path="/etc/passwd", title="absolute"),
        Attachment(path="../up.log", title="above"),
    )
    attachments = (
        *outside,
        *(Attachment(path=f"./logs/{number}.log", title="log") for number in range(20)),
    )
    links = page_of(markdown.render(a_report(attachments=attachments), artifacts="out/r")).links
    assert links == [f"artifact://out/r/logs/{number}.log" for number in range(8)]
    assert page_of(markdown.render(a_report(attachments=attachments))).links == []


def test_error_shows_its_hint_and_folds_its_detail() -> None:
    error = Failure(
        message="a bug in ci-doctor", hint="report it", detail="Traceback\n```\n</details>"
    )
    shown = markdown.render(a_report(None, error=error))
    assert "a bug in ci-doctor\n\n**Hint:** report it\n" in shown
    assert "Traceback" in page_of(shown).text()
