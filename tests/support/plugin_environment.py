# SPDX-License-Identifier: Apache-2.0
"""The variables that the agent makes of a plugin's configuration, for the plugin's own hooks alone.

Copied from github.com/buildkite/agent, agent/plugin/plugin.go (Name, ConfigurationToEnvironment), and compared with it.
"""

import json
import re


def plugin_name(source: str) -> str:
    """The name that the agent makes of a plugin's source; a repository `ci-doctor.git` is `ci-doctor-git`."""
    location = source.partition("#")[0].rstrip("/")
    name = location.rpartition("/")[2].lstrip(".").lower()
    name = re.sub(r"[^a-z0-9]", "-", name)
    return name.replace("-buildkite-plugin-git", "").replace("-buildkite-plugin", "")


def plugin_variables(name: str, configuration: object) -> dict[str, str]:
    """The variables that the agent makes of a plugin's configuration, for its hooks alone."""
    upper = name.upper().replace("-", "_")
    prefix = f"BUILDKITE_PLUGIN_{upper}"
    try:
        variables = _flatten(prefix, {} if configuration is None else configuration)
    except ValueError:
        return {}
    return variables | {
        "BUILDKITE_PLUGIN_NAME": upper,
        "BUILDKITE_PLUGIN_CONFIGURATION": _go_json(configuration),
    }


def _flatten(prefix: str, value: object) -> dict[str, str]:
    match value:
        case None:
            raise ValueError("a null cannot become a variable")
        case dict():
            items = [
                (str(key).upper().replace("-", "_").replace(" ", "_"), item)
                for key, item in value.items()
            ]
        case list():
            items = [(str(index), item) for index, item in enumerate(value)]
        case str():
            return {prefix: value}
        case _:
            return {prefix: json.dumps(value)}
    flat: dict[str, str] = {}
    for key, item in items:
        flat |= _flatten(f"{prefix}_{key}", item)
    return flat


def _go_json(value: object) -> str:
    """As encoding/json writes it: keys sorted, no spaces, `<`, `>` and `&` escaped."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)
