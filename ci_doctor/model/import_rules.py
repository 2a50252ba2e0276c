# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about imports in several threads: what each means and what to do. Pure."""

from ci_doctor.model.meaning import Meaning

IMPORT_RULES: dict[str, Meaning] = {
    "import-race/self-replacing": Meaning(
        "A module replaces itself in `sys.modules` at its end, and two threads import it without an order between them. "
        "CPython hands a thread that waits for the other's import the discarded module: `cannot import name …`.",
        "Import it on the main thread, with the names that are used, before the other thread starts; the preload rule that is "
        "shown does that without a change of the program.",
    ),
    "import-race/cycle": Meaning(
        "Modules import each other, and two threads enter the cycle at different modules without an order between them. "
        "CPython ends the deadlock by handing out a module that is not complete.",
        "Import the cycle's first module on the main thread before the other thread starts, or break the cycle.",
    ),
    "import-race/submodule-order": Meaning(
        "A package imports its own submodule, one thread imports the package and another one the submodule, without an order "
        "between them. Each locks what the other needs, and CPython ends the deadlock with an incomplete module or a KeyError.",
        "Import the package on the main thread before the other thread starts.",
    ),
    "import-race/failed-import": Meaning(
        "The import of a module fails in one thread, and another thread imports it without an order between them: one that "
        "waits is handed the removed, incomplete module instead of the error.",
        "Mend the import that fails, or make it on the main thread before the other thread starts.",
    ),
    "import-race/not-followed": Meaning(
        "A Python was started that does not run what is injected (`-I`, `-E`, `-S` or an environment without ours): nothing is "
        "known of its imports.",
        "Start it without that option while you look for import races.",
    ),
    "import-race/not-recorded": Meaning(
        "No Python told of its imports, or what it told cannot be read, so nothing is known.",
        "Give a command that starts a Python which reads PYTHONPATH, and record again.",
    ),
    "import-race/interpreter-immune": Meaning(
        "A module that replaces itself is imported by two threads, but this interpreter looks again after the wait and hands "
        "out the right module; it was asked, by a race of its own.",
        "Nothing here. The program is still exposed on an interpreter without that fix.",
    ),
    "import-race/command-failed": Meaning(
        "The command itself failed, so that it may have ended before the imports in question.",
        "Mend the command, or give one that succeeds, and record again.",
    ),
    "import-race/not-confirmed": Meaning(
        "A hazard was seen and no delay made it happen: something orders the two imports that the recorder does not know, "
        "or the race does no harm.",
        "Nothing, where you know what orders them.",
    ),
    "import-race/not-settled": Meaning(
        "A hazard was seen, and the runs with a delay could not decide it: the delay was not made in any of them, the run "
        "did not come to its end, or there were more hazards than `--candidates`.",
        "Run it again with a higher `--candidates`, or with a command that does the same in every run.",
    ),
    "import-race/timeline": Meaning(
        "The timeline of the imports was not written, because a file that is not ours has its name, or it cannot be written.",
        "Name another file: `--timeline FILE`.",
    ),
}
