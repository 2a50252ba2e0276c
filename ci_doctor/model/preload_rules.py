# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about preload shims: what each means and what to do. Pure."""

from ci_doctor.model.meaning import Meaning

PRELOAD_RULES: dict[str, Meaning] = {
    "preload/not-installed": Meaning(
        "The module to preload is not installed in the target yet.",
        "Nothing: the shim waits, and does nothing until it is.",
    ),
    "preload/fails-now": Meaning(
        "The module to preload raises when it is imported in the target now.",
        "Mend that import; the shim itself never ends an interpreter, and shows the error again where the program imports it.",
    ),
    "preload/crashes": Meaning(
        "Importing the module to preload ends the interpreter by a signal, which no shim can catch.",
        "Mend the installation of that module first; nothing was installed.",
    ),
    "preload/hangs": Meaning(
        "Importing the module to preload does not end in time.",
        "Mend that import first; nothing was installed.",
    ),
    "preload/not-reached": Meaning(
        "The command of `ci-doctor run --preload` starts a Python with -I, -E or -S, which does not read PYTHONPATH.",
        "Install the shim instead, with `ci-doctor preload install`: it works with -I and -E; with -S nothing does.",
    ),
    "preload/breaks-start": Meaning(
        "The interpreter does not start cleanly with the shim, which was taken out again.",
        "Read what the interpreter printed; another .pth file may be at odds with it.",
    ),
    "preload/foreign-file": Meaning(
        "A file that is not ours stands where a file of the shim would.",
        "Move it away; ci-doctor never overwrites it.",
    ),
    "preload/edited-file": Meaning(
        "A file of the shim was changed after it was written.",
        "Restore or delete it by hand; ci-doctor does not overwrite it.",
    ),
    "preload/not-a-file": Meaning(
        "A link or a directory stands where a file of the shim would.",
        "Remove it; ci-doctor follows no links here.",
    ),
    "preload/not-armed": Meaning(
        "A start of the interpreter does not arm the shim exactly once, or preloads before any trigger is imported.",
        "See what else runs at its start (`ci-doctor preload status`), and install the shim again.",
    ),
    "preload/start-cost": Meaning(
        "The shim takes more than 5 ms of every start.",
        "Install it again, so that its bytecode is there; a slow file system is the other cause.",
    ),
    "preload/race-lost": Meaning(
        "With the shim armed, a program that imports the trigger still fails, or the module was not preloaded.",
        "Read the traceback: where another module races, `ci-doctor import-race -- CMD` names it and gives the rule.",
    ),
    "preload/not-needed": Meaning(
        "The race is not lost without the shim either: the interpreter looks again after waiting, or the module does not "
        "replace itself. A stub cannot play every import cycle; `ci-doctor import-race` watches the real program.",
        "Take the shim out with `ci-doctor preload remove`.",
    ),
    "preload/unproven": Meaning(
        "Nothing could be proven: no shim is installed, or what it guards is loaded before a program can ask for it.",
        "See what is said to be missing. This never counts as a pass.",
    ),
    "preload/spawned-child": Meaning(
        "A child that multiprocessing spawns does not preload, although its parent would.",
        "See what the child's environment lacks; CI_DOCTOR_PRELOAD=0 there switches the shim off.",
    ),
    "preload/failing-preload": Meaning(
        "A preload that raises stops the trigger, or its error is not told by the real import.",
        "Install the shim again with this version of ci-doctor.",
    ),
    "preload/shadowed": Meaning(
        "A sitecustomize or usercustomize is there and never runs: another one comes first on sys.path (Debian's own "
        "precedes that of a virtual environment), or the interpreter reads no user site directory.",
        "Use a preload rule, which does not depend on the order of sys.path; or remove the file.",
    ),
    "preload/sitecustomize-heavy": Meaning(
        "A sitecustomize or usercustomize takes more than 5 ms of every start, half of what a bare start takes: every "
        "`python -c`, pip and subprocess pays for it.",
        "Use a preload rule, which costs only the programs that import its trigger.",
    ),
    "preload/sitecustomize-of-the-job": Meaning(
        "PYTHONPATH brings a sitecustomize that comes before the interpreter's own. Agents do this on purpose.",
        "Nothing, where it is meant; under `-I` and `-E` it does not run.",
    ),
}
