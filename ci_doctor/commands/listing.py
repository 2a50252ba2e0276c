# SPDX-License-Identifier: Apache-2.0
"""The commands that people type. Pure, and cheap to import: `--help` loads none of them."""

from typing import Final

# The headings of the root's help, in their order.
GROUPS: Final = ("Check", "Run", "Judge", "Explain", "Report")
# name -> (group, one line). The module is ci_doctor.commands.<name>, and its function has the same name.
COMMANDS: Final = {
    "init": (
        "Check",
        "Look at this repository and propose ci-doctor.toml, requests, a pipeline step and a hook.",
    ),
    "doctor": ("Check", "Check whether this agent is fit for the job."),
    "lint": (
        "Check",
        "Name what in scripts, pipelines and gates will break a job, before it runs.",
    ),
    "compat": ("Check", "Check that one package still calls another one correctly."),
    "config": ("Check", "Print configuration values and their origin, and retry rules."),
    "setup-env": (
        "Run",
        "Pin versions, set determinism variables, install preload shims; print what to export.",
    ),
    "run": ("Run", "Prepare the same environment and become a command."),
    "pytest": (
        "Run",
        "Run the repository's own pytest, keep every attempt, and tell flaky from failed.",
    ),
    "launch": (
        "Run",
        "Start services, run a command under them, stop everything; the first death ends it.",
    ),
    "wait": ("Run", "Wait until a running server is ready or dead."),
    "cache": ("Run", "Move JIT caches between jobs, and prove whether that has paid."),
    "correctness": (
        "Judge",
        "Start two servers, compare their answers byte for byte, and judge the difference.",
    ),
    "restart-check": (
        "Judge",
        "Kill a service under load, start it again, and check its promises.",
    ),
    "import-race": (
        "Judge",
        "Record imports across threads, find import races, and make them fire.",
    ),
    "diagnose": (
        "Explain",
        "Name the root cause of a failed job in its logs, and what to do.",
    ),
    "explain": (
        "Explain",
        "Explain a finding's rule, a verdict, an exit code or a word, and what to do.",
    ),
    "env": ("Explain", "Record what may decide a result, and name what changed."),
    "report": ("Report", "Print written reports again, or publish them on Buildkite."),
    "build": ("Report", "Merge the reports of a build's jobs into one page, and publish it."),
    "history": (
        "Report",
        "Keep every attempt of every test; list flaky tests, and when they began.",
    ),
    # The help of setup-env, which installs its shims, names it.
    "preload": (
        "setup-env",
        "Install, show, verify or remove the preload shims of interpreters.",
    ),
    "plugin": ("", "Called by the hooks of the Buildkite plugin."),
}
# The commands below one of them, for a word that stands at the wrong place.
BELOW: Final = {
    "build": ("merge", "publish"),
    "cache": ("restore", "save", "status", "verify", "explain", "gc", "keygen"),
    "config": ("show", "schema", "retry-rules"),
    "correctness": ("replay", "compare", "localise", "bisect"),
    "diagnose": ("rules",),
    "env": ("snapshot", "diff"),
    "history": (
        "ingest",
        "flaky",
        "test",
        "began",
        "quarantine",
        "report",
        "prune",
        "upgrade",
    ),
    "history quarantine": ("suggest",),
    "import-race": ("probe",),
    "preload": ("install", "status", "verify", "remove"),
}
# What a page of the documentation, or its subject, is called, and no command is.
SUBJECTS: Final = {
    "answers": ("correctness compare",),
    "archive": ("correctness",),
    "bootstrap": ("setup-env",),
    "buildkite": ("init",),
    "cache-store": ("cache",),
    "caches": ("cache",),
    "ci-logs": ("report",),
    "configuration": ("config",),
    "determinism": ("setup-env",),
    "drift": ("env diff",),
    "exit-codes": ("explain",),
    "github-actions": ("init",),
    "glossary": ("explain",),
    "localise-bisect": ("correctness localise", "correctness bisect"),
    "pins": ("setup-env",),
    "probes": ("wait", "launch"),
    "rules": ("explain", "diagnose rules"),
    "services": ("launch",),
    "statistics": ("correctness",),
}


def commands_named(word: str) -> list[str]:
    """The command lines of all commands of that name below another one, or of that subject."""
    below = [f"{group} {word}" for group, names in BELOW.items() if word in names]
    return [f"ci-doctor {line}" for line in below or SUBJECTS.get(word, ())]
