# SPDX-License-Identifier: Apache-2.0
"""Pure. The files that commands read and write, for the section FILES of a manual page."""

from typing import Final

from ci_doctor.commands.manual.command_manual import CommandManual

_CONFIGURATION: Final = {
    "ci-doctor.toml": "The configuration, here or in a directory above.",
    "pyproject.toml": "The same tables below `[tool.ci-doctor]`.",
}
_REPORT: Final = {
    "report.json": "The report, in the report directory.",
    "report.md": "The same for people and for annotations.",
    "junit.xml": "The same as test cases.",
}
# By the words behind ci-doctor.
_OWN: Final = {
    ("init",): {
        "ci-doctor.toml": "The configuration that is proposed.",
        "ci-doctor.schema.json": "Its JSON Schema, for editors.",
        "ci-doctor-requests.jsonl": "Starter requests.",
        ".buildkite/ci-doctor.yml": "A pipeline step.",
        ".pre-commit-config.yaml": "A hook that runs `ci-doctor lint`.",
    },
    ("correctness",): {
        "ci-doctor-report/": "The report directory without `--report-dir`; `--resume` goes on in it.",
        "report.html": "The report as a page for a browser, in the report directory.",
    },
    ("launch",): {
        "ci-doctor-report/": "The report directory without `--report-dir`; holds the logs of services."
    },
    ("restart-check",): {
        "ci-doctor-report/": "The report directory without `--report-dir`; holds the logs of services."
    },
    ("pytest",): {
        "attempts.xml": "Every attempt of each test, in the report directory.",
        "ci-doctor-quarantine.toml": "Tests that run without deciding.",
    },
    ("history", "quarantine", "suggest"): {
        "ci-doctor-quarantine.toml": "The file that the entries are for."
    },
    ("history", "report"): {"report.html": "The page, in the report directory."},
    ("env", "snapshot"): {"environment.json": "The snapshot, in the report directory."},
    ("build", "merge"): {"report.html": "The page of the build, in the report directory."},
}
_DATABASE: Final = {"ci-doctor-history.sqlite": "The history, if nothing names another database."}


def files_of(manual: CommandManual) -> dict[str, str]:
    """The files of a command, and what each is."""
    names = {name for group in manual.options for each in group.options for name in each.names}
    files: dict[str, str] = {}
    if "--config" in names:
        files |= _CONFIGURATION
    if "--report-dir" in names:
        files |= _REPORT
    if "--database" in names:
        files |= _DATABASE
    return files | _OWN.get(manual.words[1:], {})
