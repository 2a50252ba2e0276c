#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Are the weights on this agent? 75 says that the agent lacks them, and that the change is not to blame.
set -eu
folder=${WEIGHTS:-models}
if [ "${1-}" = --fetch ]; then
  mkdir -p "$folder"
  echo "stands for weights" >"$folder/model.safetensors"
fi
if [ ! -f "$folder/model.safetensors" ]; then
  echo "the weights of Qwen2.5-0.5B are not in $folder"
  exit 75
fi
echo "the weights of Qwen2.5-0.5B are in $folder"
