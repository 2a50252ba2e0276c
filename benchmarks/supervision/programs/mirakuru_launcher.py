# SPDX-License-Identifier: Apache-2.0
"""URL TOLD COMMAND…: mirakuru's HTTPExecutor; writes the time (ns since 1970) at which it finds the server ready to TOLD."""

import sys
import time
from pathlib import Path

from mirakuru import HTTPExecutor

executor = HTTPExecutor(sys.argv[3:], url=sys.argv[1], timeout=30)
executor.start()
Path(sys.argv[2]).write_text(str(time.time_ns()), encoding="ascii")
executor.kill()
