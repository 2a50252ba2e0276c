# SPDX-License-Identifier: Apache-2.0
"""What to do first: the worst that another run does not help comes before all else."""

from msgspec.structs import replace

from ci_doctor.model.facts.build import BuildFacts, CauseFacts, RetryWorth, StepFacts
from ci_doctor.render.build_annotation import counted, first_action
from tests.support.build_pages import ASSERTION, FULL_DISK, a_job, a_step

DISK = replace(FULL_DISK, steps=("full",), jobs=3, seconds=900.0)
TESTS = replace(ASSERTION, steps=("tests",), jobs=1, seconds=60.0)
FULL = a_step("full", a_job(verdict="infra", cause=DISK.fingerprint))
BROKEN = a_step("tests", a_job(verdict="failed", cause=TESTS.fingerprint))
ABSENT = a_step("absent", a_job(verdict="missing", cause=None))


def test_a_cause_of_the_change_comes_before_a_dearer_one_that_another_run_helps() -> None:
    facts = BuildFacts(build_steps=(FULL, BROKEN), causes=(DISK, TESTS), missing=("absent",))

    assert first_action(facts) == (
        "Start with “an assertion of a test failed”, which ended 1 attempt of 1 step."
        " Another run does not help."
    )


def test_a_failure_without_a_cause_leads_to_its_log() -> None:
    step = a_step("odd", a_job(verdict="failed"))

    assert first_action(BuildFacts(build_steps=(step,))) == (
        "Start with the log of odd: it ended as failed, and no cause is known."
    )


def test_a_group_without_a_cause_is_not_said_to_fail_again() -> None:
    cause = CauseFacts(fingerprint="x", title="no cause known", steps=("odd",), jobs=1)
    step = a_step("odd", a_job(verdict="failed", cause="x"))

    assert first_action(BuildFacts(build_steps=(step,), causes=(cause,))) == (
        "Start with “no cause known”, which ended 1 attempt of 1 step. Read the log of one of them."
    )


def test_a_missing_report_comes_before_failures_that_another_run_helps() -> None:
    facts = BuildFacts(
        build_steps=(FULL, ABSENT), causes=(DISK,), missing=("absent", "b", "c", "d")
    )

    assert first_action(facts) == (
        "Find out why 4 reports did not arrive, of absent, b and 2 more: nothing is known about them."
    )


def test_causes_outside_the_change_are_run_again() -> None:
    facts = BuildFacts(build_steps=(FULL,), causes=(DISK,))

    assert first_action(facts) == (
        "Run the 1 failed step again: “a disk is full”, which ended 3 attempts of 1 step, outside the change."
    )


def test_a_cause_that_a_retry_overcame_is_not_the_first_thing() -> None:
    first = a_job(verdict="infra", cause=DISK.fingerprint, retry=RetryWorth.HELPED)
    facts = BuildFacts(build_steps=(a_step("full", first, a_job(attempt=1)),), causes=(DISK,))

    assert first_action(facts) == "Nothing is left to do."


def test_a_retry_that_hid_a_failure_is_looked_at_though_all_passed() -> None:
    first = a_job(verdict="failed", retry=RetryWorth.HID_A_FAILURE)
    facts = BuildFacts(build_steps=(a_step("odd", first, a_job(attempt=1)),))

    assert first_action(facts).startswith("Look at odd: the retry passed")


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


def test_duplicates_are_looked_at_though_all_passed() -> None:
    facts = BuildFacts(build_steps=(a_step("s"),), duplicates=("s", "t"))

    assert first_action(facts) == "Look at s and t: two reports claim the same attempt."


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
