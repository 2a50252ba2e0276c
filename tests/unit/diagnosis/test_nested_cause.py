# SPDX-License-Identifier: Apache-2.0
"""Of exceptions that were raised from each other, the innermost is the root."""

from pathlib import Path

import pytest

from ci_doctor.diagnosis.diagnosis import diagnose, load_rules

JAVA = """\
Exception in thread "main" org.example.StartError: cannot start the service
\tat org.example.Main.main(Main.java:12)
Caused by: org.example.PoolException: pool is closed
\tat org.example.Pool.open(Pool.java:40)
\t... 1 more
Caused by: java.io.IOException: the widget is odd
\t... 3 more
"""
DOTNET = """\
Unhandled exception. System.InvalidOperationException: cannot start
 ---> System.Data.DataException: the pool is closed
 ---> System.IO.IOException: the widget is odd
   at System.IO.File.Open()
   --- End of inner exception stack trace ---
   at Program.Main() in /w/Program.cs:line 4
"""
NODE = """\
Error: cannot start
    at main (/w/index.js:5:9) {
  [cause]: Error: the pool is closed
      at open (/w/pool.js:2:9) {
    [cause]: Error: the widget is odd
        at open (/w/widget.js:3:1)
  }
}

Node.js v20.20.2
"""
RUST = """\
Error: cannot start the service

Caused by:
    0: the pool is closed
    1: the widget is odd
"""
LOADER = """\
Traceback (most recent call last):
  File "/w/train.py", line 20, in <module>
    for batch in loader:
  File "/venv/torch/_utils.py", line 733, in reraise
    raise exception
KeyError: Caught KeyError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/venv/torch/utils/data/_utils/worker.py", line 349, in _worker_loop
    data = fetcher.fetch(index)
KeyError: 'the widget is odd'
"""
REMOTE = """\
multiprocessing.pool.RemoteTraceback:
\"\"\"
Traceback (most recent call last):
  File "/w/m.py", line 3, in f
    raise ValueError("the widget is odd")
ValueError: the widget is odd
\"\"\"

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/m.py", line 6, in <module>
    p.map(f, [1])
RuntimeError: a worker has failed
"""


@pytest.mark.parametrize("text", [JAVA, DOTNET, NODE, RUST, LOADER, REMOTE])
def test_the_innermost_cause_is_named(tmp_path: Path, text: str) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"starting\n{text}")

    # So short a log names no cause by itself: jobs that passed print such chains, too.
    cause = diagnose([str(log)], load_rules(), status=1).cause

    assert cause is not None
    assert "the widget is odd" in cause.place.text


def test_a_cause_below_other_output_belongs_to_something_else(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"{JAVA.splitlines()[0]}\nthe next step begins\n{JAVA.splitlines()[5]}\n")

    cause = diagnose([str(log)], load_rules()).cause

    assert cause is not None
    assert cause.place.line == 1
