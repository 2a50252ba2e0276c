#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same program by ci-doctor: with-ci-doctor.sh [race|cured]. No disk has to be cold for it.
cd "$(dirname "$0")/../../import-race" || exit
case ${1:-race} in
race) exec ci-doctor import-race --confirm -- python3 -m serving.cli ;;
cured)
  exec ci-doctor run --preload 'serving.cli=lazy_models:GenerationConfig' -- \
    ci-doctor import-race --confirm -- python3 -m serving.cli
  ;;
esac
