#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same job by ci-doctor: with-ci-doctor.sh [intermittent|renamed|two-plans]
here=$(cd "$(dirname "$0")" && pwd)
exec ci-doctor correctness --retries 3 --no-localise --config "$here/${1:-intermittent}.toml"
