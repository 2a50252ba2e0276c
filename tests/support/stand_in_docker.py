# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the docker plugin of Buildkite, without docker: the command runs with the container's environment alone.

Copied from its README (github.com/buildkite-plugins/docker-buildkite-plugin, v5.13.0) and commands/run.sh: the hook
`command` runs the step's command in place of the agent; the container gets the variables that `environment` names or
sets, those whose names stand in the variable that `env-propagation-list` names (the job fails if that is empty), and of
the hooks' variables no others; the command runs in `workdir`, where the checkout is mounted. A mount is a symbolic link
to the checkout here, so `workdir` must not exist before.
"""

from pathlib import Path

_HOOK = r"""#!/bin/bash
set -euo pipefail
arguments=("PATH=$PATH")
index=0
while variable="BUILDKITE_PLUGIN_DOCKER_ENVIRONMENT_$index"; [[ -n "${!variable:-}" ]]; do
  item="${!variable}"
  if [[ "$item" == *=* ]]; then arguments+=("$item"); else arguments+=("$item=${!item-}"); fi
  index=$((index + 1))
done
list="${BUILDKITE_PLUGIN_DOCKER_ENV_PROPAGATION_LIST:-}"
if [[ -n "$list" ]]; then
  if [[ -z "${!list:-}" ]]; then
    echo "env-propagation-list desired, but $list is not defined!"
    exit 1
  fi
  for name in ${!list}; do
    if [[ -n "${!name+set}" ]]; then arguments+=("$name=${!name}"); fi
  done
fi
ln -s "$PWD" "$BUILDKITE_PLUGIN_DOCKER_WORKDIR"
cd "$BUILDKITE_PLUGIN_DOCKER_WORKDIR"
env -i "${arguments[@]}" /bin/sh -e -c "$BUILDKITE_COMMAND"
"""


def make(directory: Path) -> Path:
    """The plugin's directory, below `directory`."""
    plugin = directory / "docker"
    hook = plugin / "hooks" / "command"
    hook.parent.mkdir(parents=True)
    hook.write_text(_HOOK)
    hook.chmod(0o755)
    return plugin
