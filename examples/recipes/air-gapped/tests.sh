#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stands for the tests of a repository.
set -eu
echo "3 passed; PYTHONHASHSEED is ${PYTHONHASHSEED:-not set}"
