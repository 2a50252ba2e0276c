# SPDX-License-Identifier: Apache-2.0
"""Options of pytest that a run of chosen tests has otherwise than the run of all tests.

It runs in the interpreter of the tests, Python 3.8 and pytest 7 or later, and needs the standard library alone.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

# They would stop the run early, narrow it, or write over or remove the files of the run of all tests.
OF_ALL_TESTS: "Dict[str, Any]" = {
    "maxfail": 0, "lf": False, "failedfirst": False, "newfirst": False, "stepwise": False,
    "stepwise_skip": False, "xmlpath": None, "htmlpath": None, "report_log": None, "json_report": False,
    # None would leave it to the project's settings.
    "allure_report_dir": None, "basetemp": None, "log_file": os.devnull,
}  # fmt: skip


def change_options(config: "Any", options: "Dict[str, Any]") -> None:
    """Give these values to the options that the project's pytest has."""
    for name, value in options.items():
        if hasattr(config.option, name):
            setattr(config.option, name, value)
