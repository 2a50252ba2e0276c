# SPDX-License-Identifier: Apache-2.0
"""How far waits for a CPU extend a time limit. Pure."""

# However busy the machine is, a limit grows by no more than itself, or than this if it is short.
_LEAST_EXTENSION_S = 30.0
# A quiet machine makes threads wait for a CPU too, some milliseconds in all.
_NOTABLE_S = 0.02


def extended(limit_s: float, waited_s: float) -> float:
    """`limit_s` seconds, if those who are expected to act had to wait so long for a CPU."""
    if waited_s < _NOTABLE_S:
        return limit_s
    return min(limit_s + waited_s, longest(limit_s))


def longest(limit_s: float) -> float:
    """What a limit can grow to: seconds."""
    return limit_s + max(limit_s, _LEAST_EXTENSION_S)
