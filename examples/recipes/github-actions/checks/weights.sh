#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Are the weights on this runner? 75 says that the machine lacks them, and that the change is not to blame.
set -eu
if ! [ -f "${WEIGHTS:-../../tiny-llm/model.py}" ]; then
  echo "the weights are not on this runner: ${WEIGHTS:-../../tiny-llm/model.py}"
  exit 75
fi
echo "the weights are on this runner"
