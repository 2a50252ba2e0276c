# SPDX-License-Identifier: Apache-2.0
"""Reads all rooms' rules into one table, for `explain` and the docs alone."""

from ci_doctor.build import findings as build
from ci_doctor.caches import outcomes as caches
from ci_doctor.compat import rules as compat
from ci_doctor.correctness import rules as correctness
from ci_doctor.diagnosis import rules as diagnosis
from ci_doctor.environment import rules as environment
from ci_doctor.finished_job import after_command as finished_job
from ci_doctor.history import outcomes as history
from ci_doctor.imports import rules as imports
from ci_doctor.model.finding import Rule
from ci_doctor.preload import injection, install, trial, verify
from ci_doctor.pytest_runs import explanation as explain
from ci_doctor.pytest_runs import findings as pytest_runs
from ci_doctor.restart import rules as restart
from ci_doctor.services import findings as services
from ci_doctor.session import delivery as session
from ci_doctor.watch import report as watch

# A new room adds its line here.
_ROOMS: tuple[tuple[Rule, ...], ...] = (
    environment.RULES,
    trial.RULES,
    install.RULES,
    injection.RULES,
    verify.RULES,
    services.RULES,
    watch.RULES,
    restart.RULES,
    correctness.RULES,
    imports.RULES,
    pytest_runs.RULES,
    explain.RULES,
    diagnosis.RULES,
    finished_job.RULES,
    build.RULES,
    history.RULES,
    caches.RULES,
    compat.RULES,
    session.RULES,
)


def all_rules() -> dict[str, Rule]:
    """Every rule that a finding may name, by id, in the order of the rooms."""
    # A hundred small modules: whoever asks for an exit code need not wait for them.
    from ci_doctor.checks.all_checks import all_rules as rules_of_checks
    from ci_doctor.lint.all_rules import rules_for_catalogue

    rules: dict[str, Rule] = {}
    for room in (_ROOMS[0], rules_of_checks(), *_ROOMS[1:], rules_for_catalogue()):
        for rule in room:
            rules[rule.id] = rule
    return rules
