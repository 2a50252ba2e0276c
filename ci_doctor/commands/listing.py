# SPDX-License-Identifier: Apache-2.0
"""The commands that people type. Pure, and cheap to import: `--help` loads none of them."""

# name -> (help group, one line). The module is ci_doctor.commands.<name>, and its function has the
# same name.
COMMANDS = {
    "init": (
        "Prepare",
        "Look at this repository and propose ci-doctor.toml, requests, a pipeline step and a hook.",
    ),
    "doctor": ("Prepare", "Check whether this agent is fit for the job."),
    "setup-env": (
        "Prepare",
        "Pin versions, set determinism variables, install preload shims; print what to export.",
    ),
    "env": ("Prepare", "Record what may decide a result, and name what changed."),
    "config": ("Prepare", "Print every configuration value and its origin."),
    "lint": (
        "Prepare",
        "Name what in scripts, pipelines and gates will break a job, before it runs.",
    ),
    "compat": ("Prepare", "Check that one package still calls another one correctly."),
    "preload": (
        "Prepare",
        "Plan, install, show, verify or remove the preload shims of interpreters.",
    ),
    "run": ("Run", "Prepare the same environment and become a command."),
    "pytest": (
        "Run",
        "Run the repository's own pytest, keep every attempt, and tell flaky from failed.",
    ),
    "correctness": (
        "Run",
        "Start two servers, compare their answers byte for byte, and judge the difference.",
    ),
    "launch": (
        "Run",
        "Start services, run a command under them, stop everything; the first death ends it.",
    ),
    "wait": ("Run", "Wait until a running server is ready or dead."),
    "restart-check": (
        "Run",
        "Kill a service under load, start it again, and check its promises.",
    ),
    "cache": ("Run", "Move JIT caches between jobs, and prove whether that has paid."),
    "diagnose": (
        "Explain",
        "Name the root cause of a failed job in its logs, and what to do.",
    ),
    "import-race": (
        "Explain",
        "Record imports across threads, find import races, and make them fire.",
    ),
    "explain": (
        "Explain",
        "Explain a finding's rule, a verdict or an exit code, and what to do.",
    ),
    "report": ("Report", "Print written reports again, or publish them on Buildkite."),
    "build": ("Report", "Merge the reports of a build's jobs into one page, and publish it."),
    "history": (
        "Report",
        "Keep every attempt of every test; list flaky tests, their beginning and their cost.",
    ),
    "pipeline": ("Report", "Print the retry rules that match this repository's exit codes."),
    "plugin": ("", "Called by the hooks of the Buildkite plugin."),
}
