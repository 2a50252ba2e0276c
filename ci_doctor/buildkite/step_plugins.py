# SPDX-License-Identifier: Apache-2.0
"""Pure. What a step's `plugins:` say; the command sees them as the hooks do."""

import json
import re
from collections.abc import Iterator, Mapping

# The source of this plugin: its repository, by any host, and by Buildkite's short form.
_OURS = re.compile(r"(^|/)ci[-_]doctor(-buildkite-plugin)?(\.git)?(#|$)")


def our_configurations(environ: Mapping[str, str]) -> list[object]:
    """The configuration of each ci-doctor plugin in BUILDKITE_PLUGINS; None for one without."""
    return [value for location, value in _plugins(environ) if _OURS.search(location)]


def configurations_of(name: str, environ: Mapping[str, str]) -> list[Mapping[str, object]]:
    """The configuration of each plugin of this name in BUILDKITE_PLUGINS; empty for one without."""
    named = [value for location, value in _plugins(environ) if plugin_name(location) == name]
    return [value if isinstance(value, dict) else {} for value in named]


def plugin_name(location: str) -> str:
    """The name of a plugin, from its source.

    The last segment in lower case, without `-buildkite-plugin`, as the agent names it
    (https://github.com/buildkite/agent, agent/plugin/plugin.go).
    """
    segment = location.partition("#")[0].rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^a-z0-9]", "-", segment.lower())
    return name.replace("-buildkite-plugin-git", "").replace("-buildkite-plugin", "")


def plugin_prepares(environ: Mapping[str, str]) -> bool:
    """Whether a ci-doctor plugin of this step runs `setup-env` before its command."""
    for configuration in our_configurations(environ):
        options = configuration if isinstance(configuration, dict) else {}
        # A text where a pipeline interpolates a variable.
        if options.get("setup-env") not in (False, "false"):
            return True
    return False


def _plugins(environ: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    """The plugins of a step: a list of mappings with one key each, the plugin's source."""
    try:
        plugins = json.loads(environ.get("BUILDKITE_PLUGINS") or "[]")
    except ValueError:
        return
    for plugin in plugins if isinstance(plugins, list) else []:
        if isinstance(plugin, dict):
            yield from plugin.items()
        # A plugin without a configuration may stand there as a text.
        elif isinstance(plugin, str):
            yield plugin, None
