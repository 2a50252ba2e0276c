# SPDX-License-Identifier: Apache-2.0
"""Stands for an engine process: kv_engine.py CASE PORT. It makes its adapter, then listens.

CASE is `broken` for a caller of the adapter's last version, or `right`.
"""

import socket
import sys
import time
from typing import Any

from kv_adapter import CacheAdapter

print("engine: connecting to the cache", flush=True)
make: Any = CacheAdapter
if sys.argv[1] == "broken":
    make("tcp://127.0.0.1:5555", 2, mq_timeout=5.0)
make("tcp://127.0.0.1:5555", world_size=2, mq_timeout=5.0)
listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
time.sleep(3600)
