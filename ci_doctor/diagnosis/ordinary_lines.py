# SPDX-License-Identifier: Apache-2.0
"""Pure. Lines that make up most of a log of a job that goes well, one of each kind."""

# A literal in one of these would call a rule on a good part of all lines.
ORDINARY_LINES = (
    "2026-11-22T09:00:00.0000000Z  * [new branch]      fix-1 -> origin/fix-1",
    "(APIServer pid=7) INFO 11-22 09:00:00 [loggers.py:127] Engine 000: Avg prompt throughput: 1.0 tokens/s",
    "[2026-11-22 09:00:00] INFO server.py:12: Decode batch, #running-req: 1, token usage: 0.01",
    'INFO:     127.0.0.1:40000 - "POST /v1/completions HTTP/1.1" 200 OK',
    "DEBUG 11-22 09:00:00 [scheduler.py:12] step 7 took 0.01 s",
    "tests/unit/test_models.py::test_error_is_raised PASSED                   [ 12%]",
    "tests/test_errors.py .......................                             [ 20%]",
    "test_failure (tests.test_models.TestFailure.test_failure) ... ok",
    "ok 12 - reports an error for bad input",
    "    ✓ throws an error (2 ms)",
    "=== RUN   TestError",
    "--- PASS: TestError (0.00s)",
    "test errors::tests::fails ... ok",
    "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s - in org.example.ErrorTest",
    "[INFO] Downloading from central: https://repo.example.org/maven2/org/example/errors/1.0/errors-1.0.jar",
    "[12/99] /usr/bin/c++ -O2 -Wall -Werror=format -Isrc/include -c src/error.cc -o error.cc.o",
    "gcc -O2 -Wall -Werror -fstack-protector -Isrc -c src/failure.c -o src/failure.o",
    "   Compiling error-chain v0.12.4",
    "Collecting exceptiongroup>=1.0 (from pytest)",
    "  Downloading exceptiongroup-1.2.0-py3-none-any.whl.metadata (6.6 kB)",
    "Requirement already satisfied: packaging in /usr/lib/python3/site-packages (24.0)",
    "#12 1.234 Get:3 http://deb.example.org/debian bookworm/main amd64 liberror-perl all 0.17 [26.2 kB]",
    "Unpacking liberror-perl (0.17029-2) ...",
    "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.5it/s]",
    "  /usr/lib/python3/site-packages/lib/core.py:12: DeprecationWarning: this option is deprecated",
    "+ export PATH=/usr/local/bin:/usr/bin",
    "Receiving objects:  50% (500/1000), 1.2 MiB | 2.4 MiB/s",
)
