# SPDX-License-Identifier: Apache-2.0
"""The names that keys of evidence files had in earlier versions, which are still read. Pure.

Each table leads from the former name to the present one. Nothing writes a former name.
"""

from collections.abc import Mapping
from typing import Any

# A line of samples.jsonl.
SAMPLE = {"said": "words_digest", "asked": "prompt_facts"}
# A line of starts.jsonl (ci-doctor/start/1).
START = {"held": "not_released"}
# run.json (ci-doctor/run/1), and the identity in it.
RUN = {"began": "started_at"}
RUN_IDENTITY = {"marks": "hashes"}


def current(value: Any, former: Mapping[str, str]) -> Any:
    """A decoded JSON object with the present name of each key; any other value as it is.

    If both names of a key are there, the present one counts.
    """
    # Nearly every line is of this version: it is returned as it is, without a copy.
    if not isinstance(value, dict) or former.keys().isdisjoint(value):
        return value
    renamed = {}
    kept = {}
    for key, content in value.items():
        if key in former:
            renamed[former[key]] = content
        else:
            kept[key] = content
    return {**renamed, **kept}
