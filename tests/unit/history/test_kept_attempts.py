from pathlib import Path

import sqlalchemy as sa

from ci_doctor.history.database import ALL_BRANCHES, TEST
from ci_doctor.history.one_test import attempts_of
from tests.support.histories import WHOLE, F, I, P, history, run


def test_a_failure_on_a_broken_machine_is_one_of_infrastructure(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(40)]
    runs = [run([(name, P) for name in names], at=at, commit=f"c{at}") for at in range(30)]
    runs.append(run([(name, F) for name in names], at=29, commit="c29", agent="gpu-7"))

    with history(tmp_path / "h.sqlite", runs) as connection:
        test = connection.scalar(sa.select(TEST.c.id).where(TEST.c.name == "t0"))
        attempts = attempts_of(connection, test or 0, WHOLE, ALL_BRANCHES)

    assert [each.outcome for each in attempts if each.agent == "gpu-7"] == [I]
    assert [each.outcome for each in attempts if each.agent == "gpu-1"] == [P] * 30
