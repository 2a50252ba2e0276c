import re

from msgspec import to_builtins
from msgspec.structs import replace

from ci_doctor.model.facts.history import ColumnFacts, HistoryReportFacts, RateFacts, StripRow
from ci_doctor.render.html.report_page import render_history
from tests.support.builders import a_report

RATE = RateFacts(rate=0.1, low=0.05, high=0.2)
ROW = StripRow(
    suite="tests.test_a",
    name="test_<b>[&]",
    passed=9,
    failed=1,
    failure_rate=RATE,
    mixed_commits=1,
    cells="00.19i",
)
FACTS = HistoryReportFacts(
    since="2026-11-01T00:00:00.000Z",
    until="2026-11-02T00:00:00.000Z",
    branch=None,
    column_s=3600,
    history_strip=(ROW,),
    begins=tuple(f"2026-11-01T0{hour}:00:00.000Z" for hour in range(6)),
    infra=(5,),
    columns=(
        ColumnFacts(
            agent="gpu-7", hour="2026-11-01T05:00:00.000Z", passed=1, failed=40, is_infra=True
        ),
    ),
    failing_tests=2,
    outside_tests=0,
    tests=2,
    attempts=20,
)


def page_of(facts: HistoryReportFacts) -> str:
    page = render_history(replace(a_report(), facts=to_builtins(facts)))
    assert page is not None
    return page


def test_each_kind_of_cell_is_a_path_of_its_row() -> None:
    page = page_of(FACTS)

    paths = dict(re.findall(r'<path class="(\w+)" d="([^"]*)"/>', page.partition("<tbody")[2]))
    assert paths == {
        "pass": "M0 0h2v1h-2z",
        "some": "M3 0h1v1h-1z",
        "most": "M4 0h1v1h-1z",
        "infra": "M5 0h1v1h-1z",
    }
    assert "gpu-7" in page


def test_names_are_escaped() -> None:
    page = page_of(FACTS)

    assert "test_&lt;b&gt;[&amp;]" in page
    assert "<b>" not in page


def test_its_script_is_smaller_than_five_kilobytes_and_loads_nothing() -> None:
    page = page_of(FACTS)

    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(script.encode()) < 5_000
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page


def test_facts_of_another_form_have_no_such_page() -> None:
    empty = to_builtins(replace(FACTS, history_strip=()))

    assert render_history(a_report(facts=empty)) is None
    assert render_history(a_report()) is None
