# SPDX-License-Identifier: Apache-2.0
"""Reads the variable STAND_IN_TORCH."""

import json
import os
from typing import Any

BEHAVIOUR: dict[str, Any] = {
    "cuda": "13.0",
    "devices": 1,
    **json.loads(os.environ.get("STAND_IN_TORCH", "{}")),
}
