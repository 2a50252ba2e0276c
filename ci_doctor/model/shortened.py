# SPDX-License-Identifier: Apache-2.0
"""Pure. The one way to say that a text goes on."""


def shortened(text: str, most: int) -> str:
    """`text` in at most `most` characters, the last one an ellipsis if it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
