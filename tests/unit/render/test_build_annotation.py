# SPDX-License-Identifier: Apache-2.0
"""The annotation of a build through a real CommonMark renderer: a screen of text that stays text."""

import re

import cmarkgfm
import msgspec
import nh3
import pytest
from msgspec.structs import replace

from ci_doctor.build.current import causes_json
from ci_doctor.model.cause import LogLine
from ci_doctor.model.facts.build import BuildFacts, CauseFacts, JobFacts, RetryWorth, StepFacts
from ci_doctor.model.outcome import Report, Verdict
from ci_doctor.render.build_annotation import counted, first_action, render
from tests.support.build_pages import ASSERTION, FULL_DISK, a_job, a_step
from tests.support.builders import a_finding, a_report
from tests.support.cases import cases

DISK = replace(FULL_DISK, steps=("full",), jobs=3, seconds=900.0)
TESTS = replace(ASSERTION, steps=("tests",), jobs=1, seconds=60.0)
FULL = a_step("full", a_job(verdict="infra", cause=DISK.fingerprint))
BROKEN = a_step("tests", a_job(verdict="failed", cause=TESTS.fingerprint))
ABSENT = a_step("absent", a_job(verdict="missing", cause=None))
AGAIN = a_job(attempt=1)
FULL_AT_FIRST = a_job(verdict="infra", cause=DISK.fingerprint, retry=RetryWorth.HELPED)
OVERCOME = a_step("full", FULL_AT_FIRST, AGAIN)
HIDDEN = a_step("odd", a_job(verdict="failed", retry=RetryWorth.HID_A_FAILURE), AGAIN)
GROUP = CauseFacts(fingerprint="x", title="no cause known", steps=("odd",), jobs=1)


@cases(
    ("facts", "sentence"),
    {
        "a-cause-of-the-change-before-a-dearer-one": (
            BuildFacts(build_steps=(FULL, BROKEN), causes=(DISK, TESTS), missing=("absent",)),
            (
                "Start with “an assertion of a test failed”, which ended 1 attempt of 1 step."
                " Another run does not help."
            ),
        ),
        "a-failure-without-a-cause": (
            BuildFacts(build_steps=(a_step("odd", a_job(verdict="failed")),)),
            "Start with the log of odd: it ended as failed, and no cause is known.",
        ),
        "a-group-without-a-cause": (
            BuildFacts(
                build_steps=(a_step("odd", a_job(verdict="failed", cause="x")),), causes=(GROUP,)
            ),
            "Start with “no cause known”, which ended 1 attempt of 1 step. Read the log of one of them.",
        ),
        "a-missing-report-before-failures-that-another-run-helps": (
            BuildFacts(build_steps=(FULL, ABSENT), causes=(DISK,), missing=("absent", *"bcd")),
            "Find out why 4 reports did not arrive, of absent, b and 2 more: nothing is known about them.",
        ),
        "causes-outside-the-change": (
            BuildFacts(build_steps=(FULL,), causes=(DISK,)),
            "Run the 1 failed step again: “a disk is full”, which ended 3 attempts of 1 step, outside the change.",
        ),
        "a-cause-that-a-retry-overcame": (
            BuildFacts(build_steps=(OVERCOME,), causes=(DISK,)),
            "Nothing is left to do.",
        ),
        "a-retry-that-hid-a-failure": (
            BuildFacts(build_steps=(HIDDEN,)),
            "Look at odd: the retry passed, and nothing says that the failure lay outside the change.",
        ),
        "duplicates": (
            BuildFacts(build_steps=(a_step("s"),), duplicates=("s", "t")),
            "Look at s and t: two reports claim the same attempt.",
        ),
    },
)
def test_what_a_reader_does_first(facts: BuildFacts, sentence: str) -> None:
    assert first_action(facts) == sentence


def test_a_regression_comes_before_a_failure_that_costs_more_and_stands_before_it() -> None:
    dear = replace(TESTS, fingerprint="dear", title="another", jobs=9, seconds=9000.0)
    # What proves it counts, whatever its cause says of another run.
    proven = replace(DISK, fingerprint="proven", title="the answers differ")
    facts = BuildFacts(
        build_steps=(
            a_step("dear", a_job(verdict="failed", cause="dear")),
            a_step("proven", a_job(verdict="regression", cause="proven")),
        ),
        causes=(dear, proven),
    )

    assert first_action(facts).startswith("Start with “the answers differ”")


def test_a_cancelled_job_is_never_what_to_start_with() -> None:
    cause = CauseFacts(fingerprint="c", title="cancelled", steps=("s",), jobs=9, cancelled=True)
    stopped = a_step("s", a_job(verdict="error", cause="c", cancelled=True))
    silent = a_step("t", a_job(verdict="missing", cause="c", cancelled=True))
    alone = BuildFacts(build_steps=(stopped, silent), causes=(cause,), missing=("t",))
    with_disk = replace(alone, build_steps=(stopped, silent, FULL), causes=(cause, DISK))

    assert first_action(alone) == (
        "Only cancelled jobs are left, of s and t. Run them again if their results count."
    )
    assert first_action(with_disk).startswith("Run the 1 failed step again: “a disk is full”")


def test_a_step_that_failed_softly_is_not_what_to_start_with() -> None:
    soft = a_step("docs", a_job(verdict="failed", cause=TESTS.fingerprint, soft_failed=True))
    facts = BuildFacts(build_steps=(soft, FULL), causes=(TESTS, DISK))

    assert first_action(facts).startswith("Run the 1 failed step again: “a disk is full”")
    assert first_action(replace(facts, build_steps=(soft,))) == (
        "Nothing stops the build. Look at docs, which may fail (`soft_fail`)."
    )


def test_nothing_is_said_to_be_done_without_a_step() -> None:
    assert first_action(BuildFacts()) != "Nothing is left to do."
    empty = StepFacts(name="s", verdict="a later word", attempts=())
    assert "log of s" in first_action(BuildFacts(build_steps=(empty,)))


def test_a_name_of_several_lines_or_a_megabyte_stays_one_short_line() -> None:
    step = a_step("a\nb" + "x" * 1_000_000, a_job(verdict="failed"))
    sentence = first_action(BuildFacts(build_steps=(step,)))

    assert "\n" not in sentence
    assert len(sentence) < 250


def test_verdicts_are_counted_the_worst_first_and_an_unknown_word_as_bad_as_no_verdict() -> None:
    verdicts = ("pass", "infra", "pass", "regression", "later")
    steps = [a_step(verdict, a_job(verdict=verdict)) for verdict in verdicts]

    assert counted(steps) == (("regression", 1), ("later", 1), ("infra", 1), ("pass", 2))


PAGE = "ci-doctor-build/report.html"
HOSTILE = [
    "</details><script>alert(1)</script>",
    "a|b",
    "`x` **bold** [l](javascript:alert(1))",
    "<img src=x onerror=y>",
    "\x1b[31mred\x00\u202e",
    "line\n\n# heading\n| a | b |",
    "x" * 1_000_000,
    "$(touch pwned)",
]


def a_cause(title: str = "a disk is full", number: int = 1) -> CauseFacts:
    disk = replace(FULL_DISK, place=LogLine(), steps=("e2e",), jobs=2, seconds=620.0)
    return replace(disk, fingerprint=f"f{number}", title=title, remedy=f"free some space: {title}")


def an_annotated_step(
    name: str = "e2e", number: int = 1, *, retry: RetryWorth | None = None
) -> StepFacts:
    first = JobFacts(job=f"j{number}a", verdict="infra", summary=name, cause="f1", retry=retry)
    last = JobFacts(job=f"j{number}b", attempt=1, verdict="failed", summary=name, cause="f1")
    return StepFacts(name=name, verdict="failed", attempts=(first, last))


def a_build(*steps: StepFacts, causes: tuple[CauseFacts, ...] = (a_cause(),)) -> Report:
    facts = BuildFacts(build_steps=steps, causes=causes, cause_rule="build/cause")
    return a_report(
        Verdict.FAILED,
        command="build",
        summary="1 step: 1 failed",
        facts=msgspec.to_builtins(facts),
    )


def shown(report: Report) -> str:
    page = cmarkgfm.github_flavored_markdown_to_html(
        render(report, page=PAGE),
        cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE,
    )
    tags = {"p", "table", "thead", "tbody", "tr", "th", "td", "a", "strong", "details", "summary"}
    clean: str = nh3.clean(
        page, tags=tags | {"ul", "li", "code"}, url_schemes={"https", "artifact"}
    )
    return clean


def test_a_reader_sees_the_verdict_the_dearest_cause_its_jobs_and_the_page() -> None:
    page = shown(a_build(an_annotated_step(retry=RetryWorth.IN_VAIN)))

    assert "<strong>✗ FAILED</strong>" in page
    assert page.index("FAILED") < page.index("a disk is full")
    assert 'href="#j1b"' in page
    assert f'href="artifact://{PAGE}"' in page
    assert "10 min 20 s" in page
    assert "unknown" in page  # the GPU time
    assert "1 retry: 1 in vain." in page


def test_a_step_that_a_cause_ended_twice_is_named_once() -> None:
    page = shown(a_build(an_annotated_step()))
    row = page[page.index("10 min 20 s") : page.index("</table>")]

    assert '<a href="#j1b" rel="noopener noreferrer">e2e</a> (2 attempts)' in row
    assert row.count("e2e") == 1


def test_a_long_name_leaves_room_for_the_other_columns() -> None:
    page = shown(a_build(an_annotated_step("W" * 500, retry=RetryWorth.HID_A_FAILURE)))

    names = re.findall('<a href="#[^>]*>([^<]*)</a>', page)
    assert len(names) == 2
    assert all(70 < len(name) <= 80 for name in names)
    assert re.search("hid a failure of W{70,78}…", page)


def test_what_is_missing_stands_above_the_causes_and_a_cause_stands_there_once() -> None:
    missing = a_finding(rule="build/missing-report", summary="e2e is missing")
    cause = a_finding(rule="build/cause", summary="a disk is full, twice")
    report = replace(a_build(an_annotated_step()), findings=(cause, missing))

    page = shown(report)

    assert page.index("e2e is missing") < page.index("a disk is full")
    assert "twice" not in page


def test_what_to_do_stands_before_the_tables() -> None:
    page = shown(a_build(an_annotated_step()))

    assert page.index("First:") < page.index("What to do") < page.index("free some space")
    assert page.index("free some space") < page.index("<table>")


def test_a_step_that_failed_softly_is_named_and_not_red() -> None:
    failed = JobFacts(job="j1", verdict="failed", summary="typos", cause="f1", soft_failed=True)
    step = StepFacts(name="docs", verdict="failed", attempts=(failed,))

    page = shown(a_build(step))

    assert "1 step failed softly (<code>soft_fail</code>): docs." in page
    assert "✗ FAILED</td>" not in page


def test_a_build_of_a_thousand_steps_stays_a_screen_with_one_artifact_link() -> None:
    steps = [an_annotated_step(f"step {number}", number) for number in range(1000)]
    causes = tuple(a_cause(f"cause {number}", number) for number in range(50))

    text = render(a_build(*steps, causes=causes), page=PAGE)

    assert len(text.splitlines()) < 60
    assert len(text.encode()) < 64 * 1024
    assert text.count("artifact://") == 1
    assert "44 more causes" in text
    assert "992 more steps" in text


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_stay_texts_and_leave_the_tables_whole(text: str) -> None:
    plain = shown(a_build(an_annotated_step("e2e"), causes=(a_cause("plain"),)))

    page = shown(a_build(an_annotated_step(text), causes=(a_cause(text),)))

    for tag in ("<table", "<tr", "<td", "<details", "</details", "<li", "<a "):
        assert page.count(tag) == plain.count(tag), tag
    assert "javascript:alert(1)</a>" not in page
    assert "\x1b" not in page
    assert len(page) < 64 * 1024


def test_a_job_id_that_is_no_id_is_no_link() -> None:
    step = an_annotated_step()
    job = msgspec.structs.replace(step.attempts[1], job='"><script>')

    page = render(a_build(msgspec.structs.replace(step, attempts=(job,))), page=PAGE)

    assert "<script>" not in page


def test_the_report_of_another_command_is_refused() -> None:
    report = msgspec.structs.replace(a_build(), facts={"build_steps": 3})

    with pytest.raises(ValueError, match="not the report of a build"):
        render(report)


def test_the_causes_in_the_meta_data_stay_below_a_kilobyte_and_the_dearest_stays() -> None:
    causes = tuple(a_cause("größe " * 40, number) for number in range(100))

    text = causes_json(BuildFacts(causes=causes))

    assert len(text.encode()) <= 1000
    assert msgspec.json.decode(text)[0] == {
        "fingerprint": "f0",
        "title": ("größe " * 40)[:80],
        "jobs": 2,
    }
    assert causes_json(BuildFacts()) == "[]"


def test_a_cause_with_a_long_fingerprint_does_not_make_the_meta_data_say_that_no_job_failed() -> (
    None
):
    cause = msgspec.structs.replace(a_cause("\x01" * 500, 1), fingerprint="\x02" * 500)

    text = causes_json(BuildFacts(causes=(cause,)))

    assert len(text.encode()) <= 1000
    assert [each["jobs"] for each in msgspec.json.decode(text)] == [2]
