# SPDX-License-Identifier: Apache-2.0
"""How much of alpha may be spent by a look. Pure."""

import math


def spent_by(alpha: float, made: int, most: int) -> float:
    """The probability of a false regression that is allowed up to a look after `made` of `most` starts.

    The Pocock-type spending function of Lan & DeMets (1983, doi:10.1093/biomet/70.3.659),
    alpha * ln(1 + (e - 1) t), with the share t of the starts as the share of the information. It
    spends enough early for nine starts to decide; the O'Brien-Fleming type spends next to nothing
    there.
    """
    share = min(1.0, made / most)
    return alpha * math.log1p((math.e - 1) * share)
