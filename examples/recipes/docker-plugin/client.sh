#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stands for the tests of a server: what it sees of the prepared environment goes into the job's log.
set -eu
echo "client in $PWD: CUBLAS_WORKSPACE_CONFIG is ${CUBLAS_WORKSPACE_CONFIG:-not set}"
