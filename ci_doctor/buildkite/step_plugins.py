# SPDX-License-Identifier: Apache-2.0
"""Pure. What a step's `plugins:` say of the ci-doctor plugin; the command sees them as the hooks do."""

import json
import re
from collections.abc import Iterator, Mapping

# The source of this plugin: its repository, by any host, and by Buildkite's short form.
_OURS = re.compile(r"(^|/)ci[-_]doctor(-buildkite-plugin)?(\.git)?(#|$)")


def our_configurations(environ: Mapping[str, str]) -> list[object]:
    """The configuration of each ci-doctor plugin in BUILDKITE_PLUGINS; None for one without."""
    try:
        plugins = json.loads(environ.get("BUILDKITE_PLUGINS") or "[]")
    except ValueError:
        return []
    return [found for location, found in _configurations(plugins) if _OURS.search(location)]


def plugin_prepares(environ: Mapping[str, str]) -> bool:
    """Whether a ci-doctor plugin of this step runs `setup-env` before its command."""
    for configuration in our_configurations(environ):
        options = configuration if isinstance(configuration, dict) else {}
        # A text where a pipeline interpolates a variable.
        if options.get("setup-env") not in (False, "false"):
            return True
    return False


def _configurations(plugins: object) -> Iterator[tuple[str, object]]:
    """The plugins of a step: a list of mappings with one key each, the plugin's source."""
    for plugin in plugins if isinstance(plugins, list) else []:
        if isinstance(plugin, dict):
            yield from plugin.items()
        # A plugin without a configuration may stand there as a text.
        elif isinstance(plugin, str):
            yield plugin, None
