# SPDX-License-Identifier: Apache-2.0
"""Pure. What `[lint]` in ci-doctor.toml makes of violations."""

from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import fnmatchcase

from msgspec.structs import replace

from ci_doctor.errors import ConfigError
from ci_doctor.lint.path_pattern import matches
from ci_doctor.lint.settings import LintSettings
from ci_doctor.lint.violation import Violation
from ci_doctor.model.suggestion import did_you_mean

EVERYTHING = "*"


def check_rule_names(
    settings: LintSettings, rule_ids: Callable[[], Collection[str]], where: str
) -> None:
    """Raises ConfigError for a name or a pattern in `settings` that fits no rule.

    rule_ids: gives the ids of all rules. where: the place to name, such as `ci-doctor.toml`.
    """
    names = tuple(_names(settings))
    rules = rule_ids() if names else ()
    for name in names:
        if not any(fnmatchcase(rule, name) for rule in rules):
            hint = did_you_mean(name, rules)
            raise ConfigError(f"{where}: [lint]: no rule is called `{name}`", hint=hint)


def is_left_out(file: str, settings: LintSettings) -> bool:
    """Whether no rule at all counts for `file`, so that it need not be read."""
    return EVERYTHING in _ignored(file, settings)


def configured(violations: Iterable[Violation], settings: LintSettings) -> Iterator[Violation]:
    """`violations` without those that the settings leave out, and with the severities they state."""
    patterns: dict[str, tuple[str, ...]] = {}
    for violation in violations:
        file = violation.place.file
        if file not in patterns:
            patterns[file] = _ignored(file, settings)
        rule = violation.rule.id
        if any(fnmatchcase(rule, pattern) for pattern in patterns[file]):
            continue
        severity = settings.severity.get(rule)
        yield violation if severity is None else replace(violation, severity=severity)


def _ignored(file: str, settings: LintSettings) -> tuple[str, ...]:
    """The patterns of rules that do not count for `file`."""
    ignored = list(settings.ignore)
    for each in settings.paths:
        if any(matches(pattern, file) for pattern in each.match):
            ignored += each.ignore
    return tuple(ignored)


def _names(settings: LintSettings) -> Iterator[str]:
    yield from settings.ignore
    yield from settings.severity
    for each in settings.paths:
        yield from each.ignore
