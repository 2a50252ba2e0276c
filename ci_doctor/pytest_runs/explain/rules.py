# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about why a test is flaky. Pure."""

from typing import Final

from ci_doctor.model.finding import Rule, Severity

KIND: Final = Rule(
    id="test-run/flaky-kind",
    severity=Severity.NOTE,
    meaning="`--explain-flaky` found what decides whether a test passes: runs with it and without it "
    "end in opposite ways, again and again. docs/flaky-kinds.md lists the kinds.",
    remedy="Run the command of the finding to see the test fail, and mend it as the kind says.",
)
NO_KIND: Final = Rule(
    id="test-run/flaky-kind-unknown",
    severity=Severity.NOTE,
    meaning="`--explain-flaky` changed one condition after the other, and none of them decides whether "
    "a test passes. The finding says how often it failed with nothing controlled, and which failure "
    "rate that excludes.",
    remedy="Give it more time with `--explain-budget`, or look for what no condition reaches: the "
    "kernel's random numbers, another service's answers, the hardware.",
)

RULES: Final = (KIND, NO_KIND)
