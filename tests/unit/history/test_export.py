from pathlib import Path

import pyarrow.parquet as pq

from ci_doctor.history.export import export_parquet
from tests.support.histories import BEGIN_MS, WHOLE, F, P, history, run


def test_every_attempt_is_a_row(tmp_path: Path) -> None:
    file = tmp_path / "attempts.parquet"
    runs = [run([("x", F), ("x", P)], at=1, commit="abc"), run([("y", P)], at=2, branch=None)]

    with history(tmp_path / "h.sqlite", runs) as connection:
        written = export_parquet(connection, WHOLE, file)

    rows = pq.read_table(file).to_pylist()
    assert written == 3
    assert [(row["name"], row["number"], row["outcome"]) for row in rows] == [
        ("x", 1, "failed"),
        ("x", 2, "passed"),
        ("y", 1, "passed"),
    ]
    assert (rows[0]["commit"], rows[0]["cause_title"], rows[2]["branch"]) == (
        "abc",
        "x broke",
        None,
    )
    assert rows[0]["started_at"].timestamp() * 1000 == BEGIN_MS + 3_600_000
    assert list(tmp_path.glob(".*")) == []
