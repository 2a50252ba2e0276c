# SPDX-License-Identifier: Apache-2.0
"""The page: valid whatever stands in a report, loads nothing, leaves out what it does not know."""

import base64
import hashlib
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.model.outcome import Attachment, Evidence, Failure, Report, Severity, Verdict
from ci_doctor.render import html, json
from ci_doctor.render.formatting import duration
from ci_doctor.render.html.report_page import drawn
from tests.support.build_pages import fifty_jobs
from tests.support.builders import a_finding, a_report, sample_reports
from tests.support.parsed_page import ParsedPage
from tests.support.pictures import aligned, matrix, pictures, thousand
from tests.unit.render.strategies import TEXT, VALUES, reports, whole


@pytest.mark.parametrize(
    ("gate", "same"),
    [
        ({"level": "words"}, "in words"),
        ({"level": "tokens"}, "in words and tokens"),
        ({"level": "numbers"}, "byte for byte"),
        (
            {"level": "numbers", "limit": "0.0001 nat"},
            "in words and tokens, and within 0.0001 nat in numbers",
        ),
    ],
)
def test_the_page_says_in_what_the_gate_holds_two_answers_for_the_same(
    gate: dict[str, str], same: str
) -> None:
    parts = drawn({"levels": [{"level": "tokens"}, {**gate, "gate": True}]})

    assert parts["same"] == same
    assert parts["is_exact"] == (same == "byte for byte")


def test_a_report_without_levels_compared_everything() -> None:
    assert drawn({})["same"] == "byte for byte"


PLACE = st.none() | st.integers(0, 10**6)
ALIGNED = st.fixed_dictionaries(
    {"request": TEXT, "before": TEXT, "left": TEXT, "right": TEXT},
    optional={
        "kind": TEXT,
        "hardness": TEXT,
        "unit": TEXT,
        "starts": st.lists(TEXT, max_size=3),
        "position": PLACE,
        "logprobs": st.lists(
            st.fixed_dictionaries(
                {
                    "at": st.integers(0, 99),
                    "left": st.lists(st.tuples(TEXT, st.floats(-99, 0)), max_size=2),
                    "ulp": st.none() | st.integers(0, 2**31),
                }
            ),
            max_size=2,
        ),
    },
)
STARTS = st.fixed_dictionaries({"name": TEXT}, optional={"arm": st.sampled_from(["baseline", "candidate"]) | TEXT, "archived": st.booleans()})  # fmt: skip
ROWS = st.fixed_dictionaries({"id": TEXT}, optional={"kind": TEXT, "classes": st.lists(st.none() | st.integers(-2, 40), max_size=4)})  # fmt: skip
PICTURES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "matrix": st.fixed_dictionaries({"starts": st.lists(STARTS, max_size=4), "requests": st.lists(ROWS, max_size=4)}) | VALUES,
        "aligned": st.lists(ALIGNED, max_size=2) | VALUES,
        "divergence": st.fixed_dictionaries({"positions": st.lists(PLACE, max_size=9)}, optional={"unit": TEXT}) | VALUES,
        "differences_by": st.dictionaries(TEXT, st.integers(-1, 9), max_size=3) | VALUES,
        "clusters": st.lists(st.lists(TEXT, max_size=2), max_size=2) | VALUES,
        "within": st.dictionaries(TEXT, st.integers(0, 3), max_size=3) | VALUES,
        "test": st.fixed_dictionaries({"p": st.floats(0, 1), "smallest_p": st.floats(0, 1), "alpha": st.floats(0, 1), "level": st.floats(0, 1), "labelings": st.integers(0, 99), "disputed": st.lists(TEXT, max_size=3)}) | VALUES,
        "identity": st.fixed_dictionaries({}, optional={"facts": st.dictionaries(TEXT, VALUES, max_size=2), "unknown": st.lists(TEXT, max_size=2)}) | VALUES,
        "suspects": st.lists(TEXT, max_size=2) | VALUES,
        "risk": TEXT | VALUES,
        "settle": TEXT | VALUES,
        "rare_bug_bound": st.floats(0, 1) | VALUES,
        "requests": st.integers(0, 9) | VALUES,
        "commit": TEXT | VALUES,
    },
)  # fmt: skip


@given(reports(), PICTURES)
@whole
def test_any_report_is_a_well_formed_page_of_utf_8_and_runs_nothing_but_its_own_script(
    report: Report, facts: dict[str, Any]
) -> None:
    text = html.render(replace(report, facts={**report.facts, **facts}))
    page = ParsedPage(text)

    assert text.encode().endswith(b"</html>\n")
    assert page.tags.count("script") == page.tags.count("style") == 1
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert all(
        re.fullmatch(r"#main|[A-Za-z0-9_+=,./-]+", link) and ".." not in link.split("/")
        for link in page.links
    )


PAGES = {**pictures(), "build": fifty_jobs()}


@pytest.mark.parametrize("name", PAGES)
def test_the_same_report_gives_the_same_page_also_after_it_was_written_and_read(name: str) -> None:
    report = PAGES[name]

    assert html.render(json.parse(json.render(report))) == html.render(report)


@pytest.mark.parametrize("name", ["regression", "build"])
def test_the_policy_allows_no_network_and_only_the_style_and_the_script_of_the_page(
    name: str,
) -> None:
    page = ParsedPage(html.render(PAGES[name]))
    rules = dict(rule.split(" ", 1) for rule in page.policy.split("; "))

    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    for tag in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.raw[tag].encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


@pytest.mark.parametrize("name", sample_reports())
def test_every_report_shows_its_verdict_in_a_word_and_a_symbol_and_what_belongs_to_it(
    name: str,
) -> None:
    report = sample_reports()[name]
    page = ParsedPage(html.render(report))
    words = " ".join(page.text.split())

    assert (report.verdict or "error").upper() in words
    assert "2026-11-03 09:30:00 UTC" in words
    assert duration(report.duration_s) in words
    for expected in (
        report.reproduce,
        *(finding.rule for finding in report.findings),
        *(attempt.outcome for attempt in report.attempts),
        *(attachment.title for attachment in report.attachments),
        *(table.title for table in report.tables),
    ):
        assert expected is None or " ".join(expected.split()) in words
    assert "Starts against requests" not in words


def test_a_report_without_a_verdict_shows_what_happened_the_hint_and_the_detail() -> None:
    error = Failure(message="no such file", hint="see `--help`", detail="line 7")
    page = ParsedPage(html.render(a_report(None, error=error)))

    assert all(text in page.text for text in ("ERROR", "no such file", "line 7", "--help"))


def test_each_part_that_is_missing_or_of_another_form_is_left_out_by_itself() -> None:
    titles = {
        "matrix": "Starts against requests", "divergence": "Where answers diverge", "aligned": "The hardest differences",
    }  # fmt: skip
    report = pictures()["regression"]
    for key, title in titles.items():
        without = {name: value for name, value in report.facts.items() if name != key}
        if key == "divergence":
            del without["differences_by"]
        for facts in (
            without,
            {**without, key: "nonsense"},
            {**without, key: {"starts": 3, "positions": "x"}},
        ):
            text = ParsedPage(html.render(replace(report, facts=facts))).text
            assert title not in text
            assert all(other in text for name, other in titles.items() if name != key)


def test_the_decision_says_p_alpha_what_is_disputed_and_what_is_not_excluded() -> None:
    text = " ".join(ParsedPage(html.render(pictures()["regression"])).text.split())

    assert "p = 0.0179 ≤ α = 0.05" in text
    assert "3 requests are disputed" in text
    assert "Of all 56 ways to label these starts, 1.79 % show a difference as large" in text
    assert (
        "A candidate without any fault is called a regression in at most 5% of such experiments."
        in text
    )


def test_a_p_above_alpha_does_not_exclude_chance() -> None:
    report = pictures()["regression"]
    facts = {**report.facts, "test": {**report.facts["test"], "p": 0.1, "disputed": ["x"]}}
    text = " ".join(ParsedPage(html.render(replace(report, facts=facts))).text.split())

    assert "p = 0.1 > α = 0.05: chance is not excluded" in text
    assert "1 request is disputed" in text


def test_identity_names_what_differs_in_which_starts_and_what_is_unknown() -> None:
    text = " ".join(ParsedPage(html.render(pictures()["modes"])).text.split())

    assert re.search(r"libcublas\.so\.12\s*12\.4\.5\.8\s*A1\s*A3\s*12\.5\.3\.2\s*A2\s*B1", text)
    assert "Unknown, and so not excluded: driver, cudnn" in text


def test_a_thousand_requests_by_eight_starts_stay_small() -> None:
    assert len(html.render(thousand()).encode()) < 500_000


def test_more_cells_than_a_page_holds_are_counted_and_not_drawn() -> None:
    rows = {f"r{number}": ("own", [0, *range(1, 30)]) for number in range(1500)}
    starts = [f"A{number}" for number in range(1, 30)] + ["B1"]
    text = html.render(a_report(Verdict.REGRESSION, facts={"matrix": matrix(starts, rows)}))

    assert "500 more that differ: see report.json" in text
    assert len(text.encode()) < 1_500_000


def test_hostile_texts_are_shown_as_text() -> None:
    hostile = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x00\ud800\u202e{{ 7*7 }}"
    facts = {
        "matrix": matrix(["A1", "B1"], {hostile: ("own", [0, 1])}),
        "aligned": [
            aligned(hostile, before=hostile, left=hostile, right="x" + hostile, kind=hostile)
        ],
        "suspects": [hostile],
    }
    finding = a_finding(
        summary=hostile, remedy=hostile, evidence=(Evidence(file=hostile, excerpt=hostile),)
    )
    page = ParsedPage(
        html.render(a_report(Verdict.REGRESSION, summary=hostile, findings=(finding,), facts=facts))
    )

    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert (
        page.text.count("</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>") >= 8
    )
    assert page.text.count("U+0000") == page.text.count("U+D800") == page.text.count("U+202E") == 3
    assert "49" not in page.text


def test_long_single_lines_are_clipped_and_say_so() -> None:
    long = "x" * 100_000
    finding = a_finding(Severity.ERROR, summary=long, evidence=(Evidence(excerpt=long),))
    facts = {"aligned": [aligned(long, before=long, left=long, right="y" + long)]}
    page = ParsedPage(
        html.render(a_report(Verdict.REGRESSION, summary=long, findings=(finding,), facts=facts))
    )

    assert len(page.text) < 30_000
    assert "96,000 more characters" in page.text
    assert "99,100 more characters are in the samples" in page.text
    assert "99,680 characters before" in page.text


def test_only_files_beside_the_page_become_links() -> None:
    paths = (
        "samples.jsonl",
        "logs/A1/x.log",
        "../up",
        "/etc/passwd",
        "javascript:alert(1)",
        "https://x.example",
        "a b",
    )
    report = a_report(attachments=tuple(Attachment(path=path, title="t") for path in paths))

    assert ParsedPage(html.render(report)).links == ["#main", "samples.jsonl", "logs/A1/x.log"]


def test_what_only_one_side_says_is_marked() -> None:
    facts = {"aligned": [aligned(left=" the cat sat", right=" the dog sat", logprobs=[])]}
    page = ParsedPage(html.render(a_report(Verdict.REGRESSION, facts=facts)))

    assert page.marked == "catdog"


def test_the_templates_cost_nothing_until_a_page_is_asked_for() -> None:
    code = "import sys; from ci_doctor.commands import report; from ci_doctor.session import delivery; from ci_doctor.render import markdown; print('jinja2' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "False"
