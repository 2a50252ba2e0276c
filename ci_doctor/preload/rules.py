# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of findings about preload shims and about what else runs at every start."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

NOT_INSTALLED: Final = Rule(
    id="preload/not-installed",
    severity=Severity.NOTE,
    meaning="The module to preload is not installed in the target yet.",
    remedy="Nothing: the shim does nothing until the module is installed.",
)
FAILS_NOW: Final = Rule(
    id="preload/fails-now",
    severity=Severity.WARNING,
    meaning="The module to preload raises an exception when the target imports it now.",
    remedy=(
        "Repair that import. The shim itself never ends an interpreter, "
        "and the program's own import shows the error again."
    ),
)
CRASHES: Final = Rule(
    id="preload/crashes",
    severity=Severity.ERROR,
    meaning=(
        "Importing the module to preload ends the interpreter by a signal, which no shim can catch."
    ),
    remedy="Repair the installation of that module first; nothing was installed.",
)
HANGS: Final = Rule(
    id="preload/hangs",
    severity=Severity.ERROR,
    meaning="Importing the module to preload does not end in time.",
    remedy="Repair that import first; nothing was installed.",
)
NOT_REACHED: Final = Rule(
    id="preload/not-reached",
    severity=Severity.WARNING,
    meaning=(
        "The command of `ci-doctor run --preload` starts a Python with -I, -E or -S, "
        "and such a Python does not read PYTHONPATH."
    ),
    remedy=(
        "Install the shim instead, with `ci-doctor preload install`: it works with -I and -E. "
        "Nothing works with -S."
    ),
)
BREAKS_START: Final = Rule(
    id="preload/breaks-start",
    severity=Severity.ERROR,
    meaning="The interpreter does not start cleanly with the shim, which was removed again.",
    remedy="Read what the interpreter printed: another .pth file may conflict with the shim.",
)
FOREIGN_FILE: Final = Rule(
    id="preload/foreign-file",
    severity=Severity.ERROR,
    meaning="A file that ci-doctor did not write occupies the place of a file of the shim.",
    remedy="Move it away; ci-doctor never overwrites it.",
)
EDITED_FILE: Final = Rule(
    id="preload/edited-file",
    severity=Severity.ERROR,
    meaning="A file of the shim was changed after it was written.",
    remedy="Restore or delete it by hand; ci-doctor does not overwrite it.",
)
NOT_A_FILE: Final = Rule(
    id="preload/not-a-file",
    severity=Severity.ERROR,
    meaning="A link or a directory occupies the place of a file of the shim.",
    remedy="Remove it; ci-doctor follows no links here.",
)
NOT_ARMED: Final = Rule(
    id="preload/not-armed",
    severity=Severity.ERROR,
    meaning=(
        "A start of the interpreter does not arm the shim exactly once, "
        "or preloads before any trigger is imported."
    ),
    remedy=(
        "See what else runs at its start (`ci-doctor preload status`), and install the shim again."
    ),
)
START_COST: Final = Rule(
    id="preload/start-cost",
    severity=Severity.ERROR,
    meaning="The shim takes more than 5 ms of CPU time of every start.",
    remedy=(
        "Install it again, so that its bytecode exists: without it every start compiles the shim."
    ),
)
RACE_LOST: Final = Rule(
    id="preload/race-lost",
    severity=Severity.ERROR,
    meaning=(
        "With the shim armed, a program that imports the trigger still fails, "
        "or the module was not preloaded."
    ),
    remedy=(
        "Read the traceback. If another module races, `ci-doctor import-race -- CMD` names it "
        "and prints the rule."
    ),
)
NOT_NEEDED: Final = Rule(
    id="preload/not-needed",
    severity=Severity.NOTE,
    meaning=(
        "The race is not lost without the shim either: the interpreter looks again after waiting, "
        "or the module does not replace itself. A stub cannot play every import cycle; "
        "`ci-doctor import-race` watches the real program."
    ),
    remedy="Remove the shim with `ci-doctor preload remove`.",
)
UNPROVEN: Final = Rule(
    id="preload/unproven",
    severity=Severity.WARNING,
    meaning=(
        "Nothing could be proven: no shim is installed, "
        "or what it guards is loaded before a program can import it."
    ),
    remedy="Supply what the message reports as missing. This never counts as a pass.",
)
SPAWNED_CHILD: Final = Rule(
    id="preload/spawned-child",
    severity=Severity.ERROR,
    meaning="A child that multiprocessing spawns does not preload, although its parent would.",
    remedy=(
        "See what the child's environment lacks. "
        "CI_DOCTOR_PRELOAD=0 in that environment switches the shim off."
    ),
)
FAILING_PRELOAD: Final = Rule(
    id="preload/failing-preload",
    severity=Severity.ERROR,
    meaning="A preload that raises stops the trigger, or the real import does not raise its error.",
    remedy="Install the shim again with this version of ci-doctor.",
)
SHADOWED: Final = Rule(
    id="preload/shadowed",
    severity=Severity.WARNING,
    meaning=(
        "A sitecustomize or usercustomize exists and never runs. Another one comes first on "
        "sys.path (Debian's own precedes that of a virtual environment), "
        "or the interpreter reads no user site directory."
    ),
    remedy=(
        "Remove the file, or use a preload rule, which does not depend on the order of sys.path: "
        "`ci-doctor preload install --rule TRIGGER=MODULE`."
    ),
)
SITECUSTOMIZE_HEAVY: Final = Rule(
    id="preload/sitecustomize-heavy",
    severity=Severity.WARNING,
    meaning=(
        "A sitecustomize or usercustomize takes more than 5 ms of every start, half of what a bare "
        "start takes. Every `python -c`, pip and subprocess pays for it."
    ),
    remedy=(
        "Use a preload rule, which costs only the programs that import its trigger: "
        "`ci-doctor preload install --rule TRIGGER=MODULE`."
    ),
)
SITECUSTOMIZE_OF_THE_JOB: Final = Rule(
    id="preload/sitecustomize-of-the-job",
    severity=Severity.NOTE,
    meaning=(
        "PYTHONPATH brings a sitecustomize that comes before the interpreter's own. "
        "Monitoring agents do this on purpose."
    ),
    remedy="Nothing, if it is intended; under `-I` and `-E` it does not run.",
)
THREAD_RACES: Final = Rule(
    id="preload/thread-races-import",
    severity=Severity.ERROR,
    meaning=(
        "A thread and the code that goes on after its start both import a module that replaces "
        "itself in sys.modules. The one that waits gets the replaced object, and a name of it is "
        "missing. Found in source code by `ci-doctor preload audit`; a warning if the thread is "
        "only started by a function that somebody else may call."
    ),
    remedy=(
        "Import the module before the thread starts: in the program, or by a preload rule "
        "(`ci-doctor preload install --rule RULE`)."
    ),
)
THREAD_MAY_RACE: Final = Rule(
    id="preload/thread-may-race",
    severity=Severity.WARNING,
    meaning=(
        "A thread and the code that goes on after its start both import a module. The import lock "
        "may not suffice for it. The module lies in a circle of imports that they enter at "
        "different modules, or one imports a package and the other names its submodule directly. "
        "Or the module is not installed here, so nothing is known of it."
    ),
    remedy=(
        "See whether it happens: `ci-doctor import-race -- CMD`. Import the module before the "
        "thread starts."
    ),
)
PRESET_DOES_NOT_HOLD: Final = Rule(
    id="preload/preset-does-not-hold",
    severity=Severity.WARNING,
    meaning=(
        "The preset is for other versions of the package than the installed one: there is no race "
        "that its shim would settle. No shim is installed for it."
    ),
    remedy=(
        "Leave the preset out. `ci-doctor preload audit PACKAGE` finds the races of this version; "
        "`--force` installs the shim nevertheless."
    ),
)
PRESET_UNKNOWN_VERSION: Final = Rule(
    id="preload/preset-unknown-version",
    severity=Severity.NOTE,
    meaning=(
        "The installed version says nothing (a build without tags), so that nobody knows whether "
        "the preset is for it. The shim is installed: it does no harm."
    ),
    remedy="`ci-doctor preload audit PACKAGE` tells whether the race is in this version.",
)
AUDIT_INCOMPLETE: Final = Rule(
    id="preload/audit-incomplete",
    severity=Severity.WARNING,
    meaning="Code that an entry point runs could not be read, or the time was up before its end.",
    remedy=(
        "Allow more time (`--timeout`), or name fewer entry points (`--entry NAME`). "
        "This never counts as a pass."
    ),
)

RULES: Final[tuple[Rule, ...]] = (
    NOT_INSTALLED,
    FAILS_NOW,
    CRASHES,
    HANGS,
    NOT_REACHED,
    BREAKS_START,
    FOREIGN_FILE,
    EDITED_FILE,
    NOT_A_FILE,
    NOT_ARMED,
    START_COST,
    RACE_LOST,
    NOT_NEEDED,
    UNPROVEN,
    SPAWNED_CHILD,
    FAILING_PRELOAD,
    SHADOWED,
    SITECUSTOMIZE_HEAVY,
    SITECUSTOMIZE_OF_THE_JOB,
    THREAD_RACES,
    THREAD_MAY_RACE,
    PRESET_DOES_NOT_HOLD,
    PRESET_UNKNOWN_VERSION,
    AUDIT_INCOMPLETE,
)
