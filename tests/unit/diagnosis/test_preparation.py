# SPDX-License-Identifier: Apache-2.0
import threading
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.diagnosis.log_end import prepare_in_background
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.preparation import prepared_rules
from ci_doctor.diagnosis.reading.open_log import open_log
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.literal_search import Engine, quick_engine
from ci_doctor.diagnosis.scanning.scan import scan, search_for

RULE = LogRule(id="own/bad", role=Role.CAUSE, literals=("went bad",), regex="went bad")


def test_the_engines_are_made_once_for_all_logs_of_a_job(tmp_path: Path) -> None:
    made: list[Sequence[bytes]] = []

    def make_engine(literals: Sequence[bytes]) -> Engine:
        made.append(literals)
        return quick_engine(literals)

    rules = RuleSet([RULE])
    for name in ("a.log", "b.log"):
        path = tmp_path / name
        path.write_text("it went bad\n")
        with open_log(str(path)) as log:
            assert len(scan(log, rules, make_engine).hits) == 1
    assert made == [[b"went bad"]]


def test_what_is_prepared_is_what_a_scan_takes(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("OSError: [Errno 28] No space left on device\n")
    rules = prepared_rules()
    before = search_for.cache_info().misses
    with open_log(str(path)) as log:
        assert scan(log, rules).hits
    assert search_for.cache_info().misses == before


def test_whoever_needs_the_rules_gets_those_that_a_thread_prepares() -> None:
    prepare_in_background()
    rules = prepared_rules()
    for thread in threading.enumerate():
        if thread.name == "log-rules":
            thread.join()
    assert prepared_rules() is rules
