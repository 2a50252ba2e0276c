# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `starts`. Those of `preload` say the rest."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

PATH_FILE_HEAVY: Final = Rule(
    id="doctor/path-file-heavy",
    severity=Severity.WARNING,
    meaning="The import lines of a `.pth` file take more than 50 ms of every start of the "
    "interpreter, and every `python -c`, pip, and worker process pays for it.",
    remedy="Remove the package that brings the file if the job does not need it.",
)
START_FILE_FAILS: Final = Rule(
    id="doctor/start-file-fails",
    severity=Severity.WARNING,
    meaning="A file that runs at every start of the interpreter raises an exception. What it "
    "should set up is missing, such as the path of an editable package, and each start writes the "
    "error to stderr.",
    remedy="Install what it imports, or remove the file.",
)
START_FILE_ENDS_PYTHON: Final = Rule(
    id="doctor/start-file-ends-python",
    severity=Severity.ERROR,
    meaning="A file that runs at every start of the interpreter ends it: `site` catches Exception "
    "only, not SystemExit, KeyboardInterrupt or a signal.",
    remedy="Move the file away.",
)
START_FILE_PRINTS: Final = Rule(
    id="doctor/start-file-prints",
    severity=Severity.WARNING,
    meaning="A file that runs at every start of the interpreter writes to stdout. What a script "
    'reads by `$(python -c "print(…)")` begins with these words.',
    remedy="Write to stderr there, or not at all.",
)
SHIM_BROKEN: Final = Rule(
    id="doctor/preload-shim-broken",
    severity=Severity.WARNING,
    meaning="The files of a preload shim are not as ci-doctor wrote them. The import race that it "
    "closed may be open again.",
    remedy="`ci-doctor preload status` says which. `ci-doctor preload install` writes what is "
    "missing; move away what was edited or cut off before.",
)

RULES: Final[tuple[Rule, ...]] = (
    PATH_FILE_HEAVY,
    START_FILE_FAILS,
    START_FILE_ENDS_PYTHON,
    START_FILE_PRINTS,
    SHIM_BROKEN,
)
