# SPDX-License-Identifier: Apache-2.0
"""moto's server, an imitation of S3's documented API, in a process of its own on a free port.

It is no S3: what it does about conditional writes and errors is what moto's authors read in the
documentation.
"""

import contextlib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

BUCKET = "caches"
_PROGRAM = """
import sys
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """The environment of a job that may use the server's one bucket."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        endpoint = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
        with urllib.request.urlopen(request):
            pass
        try:
            yield environment(endpoint)
        finally:
            server.kill()


def environment(endpoint: str) -> dict[str, str]:
    """The variables that lead to `endpoint`, with credentials that a test can look for."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLEEXAMPLE00",
        "AWS_SECRET_ACCESS_KEY": "hunter2-hunter2-hunter2",
        "AWS_REGION": "us-east-1",
    }
