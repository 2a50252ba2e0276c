# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `python`."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

INTERPRETER_MISSING: Final = Rule(
    id="doctor/interpreter-missing",
    severity=Severity.ERROR,
    meaning="The Python of the job cannot be run: its file is gone, or a link to the interpreter that "
    "the environment was made from leads nowhere, or it is not executable.",
    remedy="Make the environment again with an interpreter of this machine.",
)
INTERPRETER_BROKEN: Final = Rule(
    id="doctor/interpreter-broken",
    severity=Severity.ERROR,
    meaning="The Python of the job ends with an error before it runs a program.",
    remedy="Read its last words. Make the environment again if its base interpreter was replaced.",
)
VARIABLES_STOP_PYTHON: Final = Rule(
    id="doctor/variables-stop-python",
    severity=Severity.ERROR,
    meaning="The Python of the job starts in an empty environment, but not in that of the job: a "
    "variable such as PYTHONHOME or PYTHONPATH leads it to files of another Python.",
    remedy="Unset the variable that the finding names.",
)
VENV_WITHOUT_CONFIG: Final = Rule(
    id="doctor/venv-without-config",
    severity=Severity.ERROR,
    meaning="A virtual environment has lost its pyvenv.cfg. Its `python` is then the base interpreter "
    "under another name, and sees none of the environment's packages (PEP 405).",
    remedy="Make the environment again.",
)
VENV_BASE_MISSING: Final = Rule(
    id="doctor/venv-base-missing",
    severity=Severity.ERROR,
    meaning="pyvenv.cfg names, as `home`, a directory that does not exist. Python then guesses where "
    "its standard library is, and may take that of another installation.",
    remedy="Make the environment again with an interpreter of this machine.",
)
VENV_OF_ANOTHER_VERSION: Final = Rule(
    id="doctor/venv-of-another-version",
    severity=Severity.ERROR,
    meaning="The packages of a virtual environment lie in the directory of another Python version than "
    "the one that runs, so it sees none of them. This happens when the base interpreter is upgraded.",
    remedy="Make the environment again with the interpreter that runs now.",
)
VENV_WITHOUT_PACKAGES: Final = Rule(
    id="doctor/venv-without-packages",
    severity=Severity.ERROR,
    meaning="A virtual environment has lost its directory of packages, `lib/pythonX.Y/site-packages`, "
    "which it has from the beginning.",
    remedy="Make the environment again.",
)
VENV_MOVED: Final = Rule(
    id="doctor/venv-moved",
    severity=Severity.ERROR,
    meaning="The programs in `bin` name another interpreter in their first line than the one beside "
    "them: the environment was moved or copied. They do not start, or run in another environment.",
    remedy="Make the environment again in its present place, or call `python -m NAME`.",
)
PYTHON_END_OF_LIFE: Final = Rule(
    id="doctor/python-end-of-life",
    severity=Severity.NOTE,
    meaning="The Python version gets no security fixes any more, and new releases of packages leave "
    "it out (devguide.python.org/versions).",
    remedy="Make the environment with a newer Python.",
)
EXTERNALLY_MANAGED: Final = Rule(
    id="doctor/externally-managed",
    severity=Severity.NOTE,
    meaning="The job runs in the interpreter of the operating system, and pip refuses to install there "
    "(PEP 668).",
    remedy="Make a virtual environment for the job.",
)
TOOLS_OF_TWO_INTERPRETERS: Final = Rule(
    id="doctor/tools-of-two-interpreters",
    severity=Severity.WARNING,
    meaning="Programs on PATH belong to different interpreters. What `pip` installs, `pytest` or "
    "`vllm` then does not import.",
    remedy="Put the `bin` of one environment first on PATH, or call `python -m NAME`.",
)
DISTRIBUTION_TWICE: Final = Rule(
    id="doctor/distribution-twice",
    severity=Severity.ERROR,
    meaning="One distribution is installed twice. In one directory, its version and its files are those "
    "of either; in two directories, the first on sys.path hides the other.",
    remedy="Uninstall it until nothing is left, and install it once.",
)
FILES_OF_TWO_DISTRIBUTIONS: Final = Rule(
    id="doctor/files-of-two-distributions",
    severity=Severity.WARNING,
    meaning="Two distributions have installed the same files with different contents (opencv-python "
    "and its headless sister, onnxruntime and onnxruntime-gpu). The later one has won, and uninstalling "
    "one breaks the other.",
    remedy="Uninstall both, and install the one that the job needs.",
)
INSTALLATION_INTERRUPTED: Final = Rule(
    id="doctor/installation-interrupted",
    severity=Severity.ERROR,
    meaning="An installation or removal was stopped in the middle: metadata are missing, or pip "
    "has left a folder whose name begins with a tilde.",
    remedy="Install the distribution again with `--force-reinstall`.",
)
FILES_MISSING: Final = Rule(
    id="doctor/files-missing",
    severity=Severity.ERROR,
    meaning="Files that a distribution has installed, by its RECORD, are not on the disk.",
    remedy="Install the distribution again with `--force-reinstall`.",
)
PACKAGE_MODIFIED: Final = Rule(
    id="doctor/package-modified",
    severity=Severity.WARNING,
    meaning="Files of a distribution have another size than its RECORD says: they were edited in place, "
    "overwritten, or cut off by a full disk. Its version does not tell what runs.",
    remedy="Install the distribution again with `--force-reinstall`.",
)
EDITABLE_BROKEN: Final = Rule(
    id="doctor/editable-broken",
    severity=Severity.ERROR,
    meaning="An editable installation leads to a directory that does not exist or no longer holds the "
    "package, so that it cannot be imported.",
    remedy="Install it again from the checkout of this job.",
)
MODULE_SHADOWED: Final = Rule(
    id="doctor/module-shadowed",
    severity=Severity.ERROR,
    meaning="A file or package in the job's directory, or in one of PYTHONPATH, has the name of "
    "another module: one of the standard library or of an installed package. `python -m` and "
    "`python -c` import the file in place of that module. A source tree lacks the compiled parts of the installed package.",
    remedy="Rename the file, run the job in another directory, or set PYTHONSAFEPATH=1.",
)
WHEEL_OF_ANOTHER_PLATFORM: Final = Rule(
    id="doctor/wheel-of-another-platform",
    severity=Severity.ERROR,
    meaning="A distribution was built for another Python version, processor or C library than the "
    "interpreter's, so its compiled modules are not found or do not load.",
    remedy="Install it again with this interpreter.",
)
TORCH_WITHOUT_CUDA: Final = Rule(
    id="doctor/torch-without-cuda",
    severity=Severity.WARNING,
    meaning="The installed torch is built without CUDA, beside packages that are built for it: their "
    "compiled modules do not load.",
    remedy="Install torch from the index of the CUDA version that those packages name.",
)
PYTHONPATH_LEAK: Final = Rule(
    id="doctor/pythonpath-leak",
    severity=Severity.WARNING,
    meaning="PYTHONPATH or PYTHONHOME leads the job's Python to packages of another environment, or "
    "names a directory that does not exist or depends on where a program starts.",
    remedy="Unset the variable, or name absolute directories of the job only.",
)
USER_SITE_LEAK: Final = Rule(
    id="doctor/user-site-leak",
    severity=Severity.NOTE,
    meaning="Packages in the home directory of the agent's user are part of the job, and are imported "
    "before those of the system.",
    remedy="Set PYTHONNOUSERSITE=1, or use a virtual environment.",
)
INSTALLER_REDIRECTED: Final = Rule(
    id="doctor/installer-redirected",
    severity=Severity.WARNING,
    meaning="A variable makes pip or uv install elsewhere than into the interpreter of the job.",
    remedy="Unset the variable.",
)
ASSERTS_REMOVED: Final = Rule(
    id="doctor/asserts-removed",
    severity=Severity.WARNING,
    meaning="PYTHONOPTIMIZE removes each `assert` statement outside of test modules, so checks of the "
    "job pass without looking.",
    remedy="Unset PYTHONOPTIMIZE.",
)
REQUIREMENT_UNMET: Final = Rule(
    id="doctor/requirement-unmet",
    severity=Severity.WARNING,
    meaning="An installed distribution requires another one that is missing or has another version; "
    "`pip check` says the same.",
    remedy="Install versions that fit together.",
)
SITE_NOT_EXECUTABLE: Final = Rule(
    id="doctor/site-not-executable",
    severity=Severity.ERROR,
    meaning="Packages lie on a file system that is mounted with noexec. The loader refuses each "
    "compiled module there (`failed to map segment from shared object`), and no program of the "
    "environment can be started.",
    remedy="Make the environment on another file system.",
)
SITE_UNREADABLE: Final = Rule(
    id="doctor/site-unreadable",
    severity=Severity.ERROR,
    meaning="The user of the job may not read installed packages, mostly because another user installed "
    "them with a umask of 077.",
    remedy="Let the owner make them readable: `chmod -R a+rX DIRECTORY`.",
)
BYTECODE_UNWRITABLE: Final = Rule(
    id="doctor/bytecode-unwritable",
    severity=Severity.NOTE,
    meaning="Packages have no compiled bytecode, and the user of the job may not write it: each start "
    "compiles their sources again.",
    remedy="Compile them once as the owner: `python -m compileall -q DIRECTORY`.",
)

RULES: Final[tuple[Rule, ...]] = (
    INTERPRETER_MISSING,
    INTERPRETER_BROKEN,
    VARIABLES_STOP_PYTHON,
    VENV_WITHOUT_CONFIG,
    VENV_BASE_MISSING,
    VENV_OF_ANOTHER_VERSION,
    VENV_WITHOUT_PACKAGES,
    VENV_MOVED,
    PYTHON_END_OF_LIFE,
    EXTERNALLY_MANAGED,
    TOOLS_OF_TWO_INTERPRETERS,
    DISTRIBUTION_TWICE,
    FILES_OF_TWO_DISTRIBUTIONS,
    INSTALLATION_INTERRUPTED,
    FILES_MISSING,
    PACKAGE_MODIFIED,
    EDITABLE_BROKEN,
    MODULE_SHADOWED,
    WHEEL_OF_ANOTHER_PLATFORM,
    TORCH_WITHOUT_CUDA,
    PYTHONPATH_LEAK,
    USER_SITE_LEAK,
    INSTALLER_REDIRECTED,
    ASSERTS_REMOVED,
    REQUIREMENT_UNMET,
    SITE_NOT_EXECUTABLE,
    SITE_UNREADABLE,
    BYTECODE_UNWRITABLE,
)
