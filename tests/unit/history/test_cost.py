from pathlib import Path

import pytest

from ci_doctor.history.cost import cost_facts
from ci_doctor.model.cause import Cause
from tests.support.histories import WHOLE, F, P, history, run

DISK = Cause(fingerprint="d", title="no disk", class_="disk", is_outside=True)


def test_a_cause_costs_the_time_of_its_jobs_and_of_its_attempts(tmp_path: Path) -> None:
    runs = [
        run([("x", P)], at=1, cause=DISK, gpus=8),
        run([("x", P)], at=2, cause=DISK),
        run([("x", F), ("y", F), ("x", F)], at=3, gpus=2),
    ]

    with history(tmp_path / "h.sqlite", runs) as connection:
        facts = cost_facts(connection, WHOLE)

    (disk,) = facts.jobs
    assert (disk.title, disk.count, disk.seconds) == ("no disk", 2, 1200)
    assert disk.gpu_s == pytest.approx(4800)
    costs = {cause.title: (cause.count, cause.seconds, cause.gpu_s) for cause in facts.attempts}
    assert costs == {"x broke": (2, 1.0, 2.0), "y broke": (1, 0.5, 1.0)}
