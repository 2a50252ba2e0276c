# SPDX-License-Identifier: Apache-2.0
"""Pure. What other predictors reach on the same sources, all logs of each set.

Measured in November 2026 on the whole sets, of which the labelled logs here are a part: grep and
tail, the regex of Prow's Spyglass lens, pytorch/test-infra's log-classifier, ci-log-intelligence.
"""

_HEAD = "| predictor | LogChunks | CiDiff | LogDx | pytorch | treeherder | ML serving |"
_ROWS = (
    "| the last 40 lines | 15.6/50 | 41.9/98 | 9.4/53 | 9.8/78 | 6/31 | 38/58 |",
    "| the first line with `error` | 11.6/14 | 30.2/40 | 18.8/28 | 31.7/73 | 6/6 | 63/79 |",
    "| the last line with `error` | 19.9/44 | 62.8/98 | 50/75 | 31.7/63 | 31/31 | 33/48 |",
    "| Prow's regex, first match | 6.5/12 | 41.9/49 | 15.6/16 | 12.2/17 | 38/44 | 3/4 |",
    "| the first traceback's exception | 1.3 | 2 | 3 | 19.5/27 | 6/6 | 87/89 |",
    "| pytorch's log-classifier | 4.3/8 | 0 | 9.4/16 | 100/100 (its own fixtures) | 0 | 27/30 |",
    "| ci-log-intelligence 0.2.1 | 2.8/4 | 34.9/42 | 31.2/47 | 34.1/73 | 6/6 | 71/82 |",
)


def peer_table() -> list[str]:
    """Top-1/ex40 in per cent, as lines of Markdown."""
    return ["Peers (top-1/ex40, %):", "", _HEAD, "|---|--:|--:|--:|--:|--:|--:|", *_ROWS]
