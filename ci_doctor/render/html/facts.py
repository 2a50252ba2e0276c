# SPDX-License-Identifier: Apache-2.0
"""A part of a report's facts, read for its page. Pure.

Each part may be missing, or have a form that this version does not know. The page then leaves it
out.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import ValidationError, convert

from ci_doctor.decodable import decodable

Part = TypeVar("Part")


def part(facts: Mapping[str, Any], name: str, form: type[Part]) -> Part | None:
    """`facts[name]` as `form`; None if it is missing or anything else."""
    if name not in facts:
        return None
    try:
        return convert(facts[name], decodable(form))
    except ValidationError:
        return None
    except UnicodeEncodeError:
        # msgspec parses a string as a number where one is expected, and a lone surrogate stops it.
        return None
