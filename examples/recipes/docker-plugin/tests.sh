#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stands for tests that start a server themselves. OUTAGE makes it the variant that must fail.
set -eu
mkdir -p logs
echo "INFO 11-23 10:00:00 server: ready" >logs/server.log
if [ -n "${OUTAGE:-}" ]; then
  echo "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.pythonhosted.org', port=443): Read timed out." >&2
  exit 3
fi
echo "3 passed"
