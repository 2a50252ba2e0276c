#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same test by ci-doctor: with-ci-doctor.sh [helper|right]
here=$(cd "$(dirname "$0")" && pwd)
exec ci-doctor restart-check --config "$here/${1:-helper}.toml"
