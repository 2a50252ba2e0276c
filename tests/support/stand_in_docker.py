# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the docker plugin of Buildkite, without docker: the command runs with the container's environment alone.

Copied from its README (github.com/buildkite-plugins/docker-buildkite-plugin, v5.13.0) and commands/run.sh: the hook
`command` runs the step's command in place of the agent; the container gets the variables that `environment` names or
sets, those whose names stand in the variable that `env-propagation-list` names (the job fails if that is empty), and of
the hooks' variables no others; the command runs in `workdir`, where the checkout is mounted. A mount is a symbolic link
to the checkout here, so `workdir` must not exist before. With `hides` it is a real mount, in a namespace of its own: of
that folder of the host the container sees its `bin`, which stands for what is in the image, and nothing else.
"""

import shlex
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
hides='@HIDES@'
if [[ -n "$hides" ]]; then
  exec unshare -rm sh -ec "$hides" sh "$PWD" "$BUILDKITE_PLUGIN_DOCKER_WORKDIR" \
    env -i "${arguments[@]}" /bin/sh -e -c "$BUILDKITE_COMMAND"
fi
ln -s "$PWD" "$BUILDKITE_PLUGIN_DOCKER_WORKDIR"
cd "$BUILDKITE_PLUGIN_DOCKER_WORKDIR"
env -i "${arguments[@]}" /bin/sh -e -c "$BUILDKITE_COMMAND"
"""
_HIDES = """
checkout=$1 workdir=$2 hidden=@HIDDEN@
shift 2
mount -t tmpfs tmpfs /mnt
mkdir /mnt/image "$workdir"
mount --bind "$checkout" "$workdir"
mount --bind "$hidden/bin" /mnt/image
PATH=/mnt/image
mount -t tmpfs tmpfs "$hidden"
mkdir "$hidden/bin"
mount --bind /mnt/image "$hidden/bin"
cd "$workdir"
exec "$@"
"""


def make(directory: Path, *, hides: Path | None = None) -> Path:
    """The plugin's directory, below `directory`; with `hides`, a `workdir` lies in /mnt."""
    plugin = directory / "docker"
    hook = plugin / "hooks" / "command"
    hook.parent.mkdir(parents=True)
    script = "" if hides is None else _HIDES.replace("@HIDDEN@", shlex.quote(str(hides)))
    assert "'" not in script, "the hook quotes it"
    hook.write_text(_HOOK.replace("@HIDES@", script))
    hook.chmod(0o755)
    return plugin
