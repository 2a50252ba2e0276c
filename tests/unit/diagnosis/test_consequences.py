# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.diagnosis.diagnosis import diagnose, load_rules

TRACEBACK = """\
ERROR 11-22 14:00:09 [core.py:935] Traceback (most recent call last):
ERROR 11-22 14:00:09 [core.py:935]   File "/w/core.py", line 12, in run
ERROR 11-22 14:00:09 [core.py:935]     f(sinks=1)
ERROR 11-22 14:00:09 [core.py:935] TypeError: f() got an unexpected keyword argument 'sinks'
RuntimeError: Engine core initialization failed. See root cause above.
"""
CLIENT = """\
2026-11-22T14:58:00.000+01:00 GET /health: Connection refused
2026-11-22T15:05:10.000+01:00 client: TimeoutError: Timed out waiting for server after 300 s
2026-11-22T15:05:11.000+01:00 client: bye
"""


def _consequences(tmp_path: Path, **logs: str) -> list[tuple[str, int | None]]:
    names = []
    for name, text in logs.items():
        path = tmp_path / f"{name}.log"
        path.write_text(text)
        names.append(str(path))
    cause = diagnose(names, load_rules()).cause
    assert cause is not None
    assert cause.rule == "api/unexpected-argument"
    return [(Path(place.file).stem, place.line) for place in cause.consequences]


def test_what_stands_above_the_cause_does_not_follow_from_it(tmp_path: Path) -> None:
    above = "curl: (7) Failed to connect to localhost port 8000: Connection refused\n"
    below = "make: *** [Makefile:3: test] Error 1\nmake: Leaving directory '/w'\n"
    assert _consequences(tmp_path, job=above + TRACEBACK + below) == [("job", 6), ("job", 7)]


def test_a_time_out_in_another_log_follows_in_the_order_of_time(tmp_path: Path) -> None:
    server = "INFO 11-22 14:00:01 [core.py:10] Starting\n" + TRACEBACK
    chain = [("server", 6), ("client", 2)]
    assert _consequences(tmp_path, client=CLIENT, server=server) == chain
    assert _consequences(tmp_path, server=server, client=CLIENT) == chain
