# SPDX-License-Identifier: Apache-2.0
"""Reads the rule files once, with all that a scan makes of them."""

import threading
from typing import Final

from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.literal_search import quick_engine
from ci_doctor.diagnosis.scanning.scan import search_for

# A server takes longer to start than this. A start that is quicker pays nothing.
PREPARE_AFTER_S: Final = 0.25

# Whoever needs the rules while they are being prepared waits, rather than prepare them twice.
_LOCK = threading.Lock()


def prepared_rules() -> RuleSet:
    """The rules of ci-doctor, with all that a scan makes of them; quick after the first time."""
    with _LOCK:
        rules = load_rules()
        search_for(rules, quick_engine).prepare()
        return rules
