# SPDX-License-Identifier: Apache-2.0
"""Pure. What each key of the configuration means: the comments of reference.toml.

The file is an example of every section. Its comments are the one place that describes the keys:
docs/configuration.md shows it, and the JSON Schema for editors takes its descriptions from it.
"""

from functools import cache
from importlib import resources

from ci_doctor.config.loading import Key, line_of


@cache
def reference_text() -> str:
    """The example of every section, with a comment on each key."""
    return resources.files("ci_doctor.config").joinpath("reference.toml").read_text("utf-8")


def description(*keys: Key) -> str | None:
    """The comment on a key of the example, such as `("correctness", "retries")`; None without one."""
    text = reference_text()
    number = line_of(text, keys)
    if number is None:
        return None
    line = text.split("\n")[number - 1]
    name = str(keys[-1])
    table = ".".join(map(str, keys))
    # Else it is the line of a table above: the key itself is not in the example.
    if not line.startswith((f"{name} ", f"[{table}]", f"[{table}.", f"[[{table}]]")):
        return None
    _, marker, comment = line.partition("  # ")
    return comment.strip() if marker else None
