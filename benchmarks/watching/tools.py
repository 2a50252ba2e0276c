# SPDX-License-Identifier: Apache-2.0
"""Pure. One job as one writes it for each of several tools: a server on port 8000, its client, the same faults."""

import sys

from benchmarks.watching.public import Public

PORT = 8000
_SERVER = f"vllm serve m --port {PORT}"
_CLIENT = f"python3 bench.py --port {PORT}"
_READY = f"http://127.0.0.1:{PORT}/health"
# Real jobs wait for 180 to 1,800 seconds.
_WAIT_S = 100
_STEP_S = 120
_SCRIPT = (
    f"{_SERVER} > server.log 2>&1 & PID=$!; "
    f'timeout {_WAIT_S} bash -c "until curl -sf {_READY} > /dev/null; do sleep 1; done" || exit 1; '
    f"{_CLIENT}; CODE=$?; kill $PID; exit $CODE"
)
JOB = f"bash -c '{_SCRIPT}'"
NOTE = (
    f"Seconds to the end (exit code, servers left). The job waits {_WAIT_S} s for its server at most. 'named': what was "
    "printed, or the report, tells how the server ended, or what hangs. process-compose (Go) is on none of PyPI, npm "
    "and Debian 12, and was not measured."
)
_DOCTOR = f"{sys.executable} -m ci_doctor"


def jobs(start_server_and_test: str | None) -> dict[str, Public]:
    """The job below each tool; without start-server-and-test if that cannot be had."""
    commands = {
        "bash": JOB,
        f"timeout {_STEP_S} (coreutils)": f"timeout {_STEP_S} {JOB}",
        "ci-doctor run --watch": f"{_DOCTOR} run --watch --no-setup-env --report-dir report --stall 30s -- {JOB}",
        "ci-doctor run --watch --on-death end": f"{_DOCTOR} run --watch --no-setup-env --report-dir report "
        f"--stall 30s --on-death end -- {JOB}",
        "ci-doctor launch": f"{_DOCTOR} launch --report-dir report --timeout {_WAIT_S}s --service 's={_SERVER}' "
        f"--ready s={_READY} --liveness s={_READY} -- {_CLIENT}",
    }
    if start_server_and_test is not None:
        commands["start-server-and-test 2.1.5"] = (
            f"env WAIT_ON_TIMEOUT={_WAIT_S}000 {start_server_and_test} '{_SERVER}' http-get://127.0.0.1:{PORT}/health "
            f"'{_CLIENT}'"
        )
    return {
        name: Public(name, "", (), command, PORT, _WAIT_S) for name, command in commands.items()
    }
