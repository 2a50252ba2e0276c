# SPDX-License-Identifier: Apache-2.0
"""What the hooks of one job did with its caches, as one outcome."""

from typing import Any

import msgspec
import pytest

from ci_doctor.caches.outcomes import effect_facts, job_outcome, save_outcome, status_outcome
from ci_doctor.model.facts.cache import (
    CacheEffect,
    CacheStatusFacts,
    CacheStatusRow,
    JobCacheFacts,
    RestoreCacheFacts,
    RestoredCache,
    SaveCacheFacts,
    SavedCache,
    SavedFrom,
)
from ci_doctor.model.outcome import Verdict

ORIGIN = SavedFrom(
    at="2026-11-23T10:00:00Z", pipeline="p", build="4711", commit="0" * 40, branch="main"
)
TRITON = RestoredCache(
    family="triton",
    directory="/c/triton",
    result="restored",
    origin=ORIGIN,
    files=3,
    bytes=9_000_000,
    fetched_bytes=2_000_000,
)
NONE = RestoredCache(family="vllm", directory="/c/vllm", result="none", reason="nothing saved")
SENT = SavedCache(
    family="vllm", directory="/c/vllm", result="saved", stored_bytes=5_000_000, cold_s=90.0
)


def restored(*caches: RestoredCache, **changes: Any) -> RestoreCacheFacts:
    fields = {"store": "/s", "is_shared": False, "caches": caches, **changes}
    return RestoreCacheFacts(**fields)


def effect(**changes: Any) -> CacheEffect:
    fields: dict[str, Any] = {
        "family": "triton",
        "directory": "/c/triton",
        "effect": "paid",
        "reason": "nothing was compiled again",
        "causes": (),
        "compiled": 0,
        "read": 3,
        "fetched_bytes": 2_000_000,
        "cold_s": 60.0,
        "warm_s": 0.0,
        "source": "log",
        "saved_s": 60.0,
        "saved_gpu_s": 480.0,
        **changes,
    }
    return CacheEffect(**fields)


def saved(*caches: SavedCache, **changes: Any) -> SaveCacheFacts:
    fields = {
        "store": "/s",
        "scope": "signed",
        "is_signed": True,
        "is_accepted": True,
        "caches": caches,
        **changes,
    }
    return SaveCacheFacts(**fields)


def cells(facts: JobCacheFacts) -> dict[str, dict[str, object]]:
    (table,) = job_outcome(facts, None).tables
    return {
        row.label: dict(zip(table.columns, (cell.value for cell in row.cells), strict=True))
        for row in table.rows
    }


WHOLE = JobCacheFacts(
    restored=(restored(TRITON, NONE),), effects=(effect_facts((effect(),)),), saved=(saved(SENT),)
)


def test_the_sentence_has_the_seconds_the_gpu_minutes_and_the_bytes_moved() -> None:
    assert job_outcome(WHOLE, None).summary == (
        "triton paid; about 1 min 00 s of compiling saved, 8.0 GPU minutes; 2.0 MB fetched, 5.0 MB sent; "
        "saved vllm to /s, scope signed, signed"
    )


def test_each_cache_that_was_moved_has_one_line() -> None:
    rows = cells(WHOLE)

    assert list(rows) == ["triton", "vllm"]
    triton, vllm = rows.values()
    assert (triton["effect"], triton["saved"], triton["fetched"]) == ("paid", 60.0, 2_000_000)
    assert triton["restored"] == "build 4711 (main, 0000000)"
    assert (vllm["restored"], vllm["effect"]) == ("no: nothing fits", None)
    assert (vllm["fetched"], vllm["sent"]) == (None, 5_000_000)


def test_a_family_that_nobody_has_and_nobody_saves_has_no_line() -> None:
    assert job_outcome(JobCacheFacts(restored=(restored(NONE),)), None).tables == ()


def test_what_another_process_of_the_machine_has_fetched_is_not_counted_again() -> None:
    facts = JobCacheFacts(restored=(restored(TRITON, is_shared=True),))

    assert cells(facts)["triton"]["fetched"] == 0
    assert "fetched" not in job_outcome(facts, None).summary


def test_an_inert_cache_is_a_finding_with_its_cause() -> None:
    chosen = effect(
        effect="inert",
        reason="restored, but the library chose another directory: /x",
        causes=("a",),
    )
    facts = JobCacheFacts(restored=(restored(TRITON),), effects=(effect_facts((chosen,)),))

    (finding,) = job_outcome(facts, None).findings

    assert finding.rule == "cache/inert"
    assert finding.summary == "triton: restored, but the library chose another directory: /x"
    assert [each.excerpt for each in finding.evidence] == ["a"]


def test_a_store_that_failed_is_said_for_the_restore_and_for_the_save() -> None:
    facts = JobCacheFacts(
        restored=(restored(problem="no answer"),), saved=(saved(problem="no answer"),)
    )

    outcome = job_outcome(facts, None)

    assert outcome.summary == "no cache was restored: no answer; no cache was saved: no answer"
    assert [each.rule for each in outcome.findings] == ["cache/unavailable"] * 2


def test_only_the_restore_that_ends_a_job_judges_it() -> None:
    refused = RestoredCache(family="triton", directory="/c", result="refused", reason="unsigned")
    facts = JobCacheFacts(restored=(restored(refused),))

    assert job_outcome(facts, None).verdict is None
    assert job_outcome(facts, Verdict.FAILED).verdict is Verdict.FAILED


def facts(
    result: str, *, skipped: tuple[str, ...] = (), problem: str | None = None
) -> SaveCacheFacts:
    cache = SavedCache(
        family="triton", directory="/c", result=result, reason="x is a link", skipped=skipped
    )
    return SaveCacheFacts(
        store="/s",
        scope="local",
        is_signed=False,
        is_accepted=True,
        caches=(cache,),
        problem=problem,
    )


LINKS = ("x is a link", "y is a link")


@pytest.mark.parametrize(
    ("saved", "verdict"),
    [
        (facts("saved"), Verdict.PASS),
        (facts("empty"), Verdict.VOID),
        (facts("absent"), Verdict.VOID),
        (facts("saved", skipped=LINKS), Verdict.PASS),
        (facts("failed"), Verdict.INFRA),
        (facts("saved", problem="no answer"), Verdict.INFRA),
    ],
)
def test_a_strict_save_fails_if_a_cache_is_not_saved_and_not_for_a_link_in_it(
    saved: SaveCacheFacts, verdict: Verdict
) -> None:
    assert save_outcome(saved, strict=True).verdict is verdict
    assert save_outcome(saved, strict=False).verdict is None


def test_one_empty_cache_beside_a_saved_one_is_no_failure_unless_its_directory_was_named() -> None:
    saved = facts("saved")
    (empty,), (named,) = facts("empty").caches, facts("absent").caches

    verdicts = [
        save_outcome(msgspec.structs.replace(saved, caches=(*saved.caches, other)), strict=True)
        for other in (empty, named)
    ]

    assert [each.verdict for each in verdicts] == [Verdict.PASS, Verdict.VOID]


def test_what_was_left_out_is_a_warning() -> None:
    (finding,) = save_outcome(facts("saved", skipped=LINKS), strict=True).findings

    assert (finding.rule, finding.severity.value) == ("cache/not-saved", "warning")
    assert [each.excerpt for each in finding.evidence] == list(LINKS)


def test_what_no_job_will_restore_is_a_warning_and_a_failure_for_the_strict() -> None:
    unsigned = msgspec.structs.replace(facts("saved"), is_accepted=False)

    assert save_outcome(unsigned, strict=True).verdict is Verdict.FAILED
    (finding,) = save_outcome(unsigned, strict=False).findings
    assert finding.rule == "cache/for-nobody"
    assert "keygen" in (finding.remedy or "")


def status_row(family: str, files: int, **fields: Any) -> CacheStatusRow:
    return CacheStatusRow(
        family=family, directory=f"/c/{family}", files=files, bytes=files, restored=None, **fields
    )


def test_a_cache_with_files_has_a_table_of_its_own_and_all_others_share_one() -> None:
    rows = (status_row("triton", 3), status_row("vllm", 0), status_row("cuda", 0))
    outcome = status_outcome(CacheStatusFacts(store=None, caches=rows))

    assert [each.title for each in outcome.tables] == ["triton", "Caches without files"]
    assert [each.label for each in outcome.tables[1].rows] == ["vllm", "cuda"]


def test_what_a_restore_would_do_is_said_of_caches_without_files_too() -> None:
    rows = (status_row("vllm", 0, would="nothing is saved"),)
    (table,) = status_outcome(CacheStatusFacts(store="s", caches=rows)).tables

    assert table.columns == ("directory", "a restore would")
    assert [each.value for each in table.rows[0].cells] == ["/c/vllm", "nothing is saved"]
