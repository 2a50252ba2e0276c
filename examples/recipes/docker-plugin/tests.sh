#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stands for tests that start a server themselves. FULL_DISK makes it the variant that must fail.
set -eu
mkdir -p logs
echo "INFO 11-23 10:00:00 server: ready" >logs/server.log
if [ -n "${FULL_DISK:-}" ]; then
  echo "OSError: [Errno 28] No space left on device" >&2
  exit 3
fi
echo "3 passed"
