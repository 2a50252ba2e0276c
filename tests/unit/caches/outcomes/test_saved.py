"""What was saved, as an outcome."""

import msgspec
import pytest

from ci_doctor.caches.outcomes import save_outcome
from ci_doctor.model.facts.cache import SaveCacheFacts, SavedCache
from ci_doctor.model.verdict import Verdict


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
        (facts("empty"), Verdict.PASS),
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
