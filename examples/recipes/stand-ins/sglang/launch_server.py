# SPDX-License-Identifier: Apache-2.0
"""What `python -m sglang.launch_server` runs: ../sglang_serve.py on tiny-llm."""

import sys
from pathlib import Path

_STAND_INS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_STAND_INS), str(_STAND_INS.parents[1] / "tiny-llm")]

from sglang_serve import main  # noqa: E402 - only now it is on the path

main()
