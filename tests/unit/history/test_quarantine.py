import datetime as dt
import tomllib
from pathlib import Path

import pytest

from ci_doctor.errors import ConfigError
from ci_doctor.history.quarantine import quarantine_facts
from ci_doctor.history.rates import rate_facts
from ci_doctor.model.facts.history import FlakyTestFacts
from ci_doctor.pytest_runs.quarantine import quarantine, read_quarantine


def flaky(name: str, commits: int) -> FlakyTestFacts:
    return FlakyTestFacts(
        suite="tests.test_a",
        name=name,
        passed=9,
        failed=1,
        infra=0,
        failure_rate=rate_facts(1, 10),
        mixed_commits=commits,
        transitions=2,
        is_proven=True,
        last_failed_at=None,
    )


def test_tests_proven_by_two_commits_get_an_entry_that_ends() -> None:
    facts = quarantine_facts([flaky('x["\\é\x7f]', 2), flaky("y", 1)], now_ms=0, days=14)

    (entry,) = tomllib.loads(facts.toml)["quarantine"]
    assert entry["test"] == 'tests.test_a::x["\\é\x7f]'
    assert entry["reason"] == "passed and failed on 2 commits; fails in 10 %"
    assert str(entry["until"]) == "1970-01-15"


def test_what_is_suggested_holds_once_somebody_owns_it(tmp_path: Path) -> None:
    facts = quarantine_facts([flaky("test_x[1]", 2)], now_ms=0, days=14)
    file = tmp_path / "ci-doctor-quarantine.toml"
    file.write_text(facts.toml)

    with pytest.raises(ConfigError, match="owner"):
        read_quarantine(file)
    file.write_text(facts.toml.replace('owner = ""', 'owner = "serving"'))
    entries = read_quarantine(file)

    test = "tests/test_a.py::test_x[1]"
    assert list(quarantine(entries, [test], dt.date(1970, 1, 15)).held) == [test]
