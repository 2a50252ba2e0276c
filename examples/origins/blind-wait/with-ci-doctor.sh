#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same launch by ci-doctor: with-ci-doctor.sh [broken|right]
here=$(cd "$(dirname "$0")" && pwd)
exec ci-doctor launch --config "$here/${1:-broken}.toml" -- echo "here the tests would run"
