# SPDX-License-Identifier: Apache-2.0
"""A cluster whose task fails, whose worker is killed and started again, and that closes well."""

import logging
import os
from pathlib import Path

from distributed import Client, LocalCluster

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("cluster")


def divide(by):
    return 1 / by


def die_once(path):
    if not path.exists():
        path.touch()
        os._exit(1)
    return "survived"


def main():
    path = Path(f"died-{os.getpid()}").resolve()
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        failed = client.submit(divide, 0)
        log.error("task failed as expected: %r", failed.exception())
        print(client.submit(die_once, path).result())
        print([each.result() for each in client.map(divide, [1, 2, 4])])


if __name__ == "__main__":
    main()
