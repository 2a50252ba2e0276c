#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts one server under test: serve.sh CASE ARM PORT START. CASE is the situation that a job is in:
#   intermittent  the change has a bug: two starts of three reuse one block too many
#   renamed       the requests name a model that is not there, so both servers refuse all of them
#   two-plans     nothing is wrong with the change: the machine runs one of two kernels, start by start
set -eu
case=$1 arm=$2 port=$3 start=$4
flags="--plan split8"
if [ "$arm" = cached ]; then flags="$flags --kv-reuse"; fi
case $case.$arm in
intermittent.cached) if [ $((start % 3)) -ne 0 ]; then flags="--plan split8 --kv-reuse=stale"; fi ;;
two-plans.plain) flags="--plan split1,split8 --turn $start" ;;
two-plans.cached) flags="--plan split8,split1 --turn $start --kv-reuse" ;;
esac
# shellcheck disable=SC2086 # words
exec python3 "$(dirname "$0")/../../tiny-llm/server.py" --port "$port" $flags
