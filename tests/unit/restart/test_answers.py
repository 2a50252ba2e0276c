# SPDX-License-Identifier: Apache-2.0
import json

from ci_doctor.load.sending import Reply
from ci_doctor.model.facts.restart_check import Phase
from ci_doctor.restart.answers import Ledger
from tests.unit.load.streams import canonicalise


def answered(identity: str, text: str) -> Reply:
    answer = canonicalise(json.dumps({"choices": [{"text": text}]}).encode())
    return Reply(id=identity, sent_at=0.0, ended_at=1.0, status=200, answer=answer)


def failed(error: str, *, hung: bool = False) -> Reply:
    return Reply(id="r0", sent_at=0.0, ended_at=1.0, error=error, hung=hung)


def test_replies_are_counted_by_phase_and_only_errors_that_differ_are_kept() -> None:
    ledger = Ledger(compare=False)
    for error in ("a", "a", "b", "c", "d"):
        ledger.keep(Phase.OUTAGE, failed(error))
    ledger.keep(Phase.OUTAGE, failed("no answer in 3 s", hung=True))
    ledger.keep(Phase.OUTAGE, answered("r0", ""))
    ledger.lasted(Phase.OUTAGE, 2.0)
    counts = ledger.counts[Phase.OUTAGE]
    assert (counts.ok, counts.failed, counts.hung, counts.empty, counts.sent) == (1, 5, 1, 1, 7)
    assert counts.errors == ("a", "b", "c")
    assert (counts.seconds, counts.rate) == (2.0, None)


def test_the_best_pass_is_the_rate() -> None:
    ledger = Ledger(compare=False)
    ledger.passed(Phase.AFTER, 10, 2.0)
    ledger.passed(Phase.AFTER, 10, 1.0, waited_s=0.5)
    assert ledger.counts[Phase.AFTER].rate == 10.0
    assert ledger.counts[Phase.AFTER].free_rate == 20.0
    assert ledger.counts[Phase.AFTER].seconds == 3.0


def test_an_answer_that_the_baseline_never_gave_is_shown_from_where_they_part() -> None:
    ledger = Ledger(compare=True)
    ledger.keep(Phase.BASELINE, answered("r0", "x" * 100 + "end"))
    ledger.keep(Phase.OUTAGE, answered("r0", "x" * 100 + "END"))
    (difference,) = ledger.different
    assert (difference.phase, difference.before, difference.after) == (
        Phase.OUTAGE,
        "x" * 40 + "end",
        "x" * 40 + "END",
    )


def test_a_request_that_the_baseline_answers_in_two_ways_proves_nothing() -> None:
    ledger = Ledger(compare=True)
    for text in ("a", "b"):
        ledger.keep(Phase.BASELINE, answered("r0", text))
    ledger.keep(Phase.AFTER, answered("r0", "c"))
    assert ledger.unstable == ("r0",)
    assert ledger.different_count == 0


def test_where_the_same_answers_were_not_asked_for_nothing_is_compared() -> None:
    ledger = Ledger(compare=False)
    ledger.keep(Phase.BASELINE, answered("r0", "a"))
    ledger.keep(Phase.AFTER, answered("r0", "b"))
    assert (ledger.different_count, ledger.unstable) == (0, ())
