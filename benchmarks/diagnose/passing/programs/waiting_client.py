# SPDX-License-Identifier: Apache-2.0
"""Asks a server that is not up yet, logs each refusal with its traceback, and ends well."""

import logging
import sys
import time
import urllib.error
import urllib.request

logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
log = logging.getLogger("client")

for attempt in range(1, 60):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/") as answer:
            log.info("server is ready after %d attempts: %d", attempt, answer.status)
        break
    except urllib.error.URLError:
        log.exception("attempt %d failed, retrying in 0.5 s", attempt)
        time.sleep(0.5)
else:
    sys.exit("the server never came")
