# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration and sends messages: what the commands with `--notify` share."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.config.decoding import Origins, decode_section, path_in, seconds_above_zero
from ci_doctor.config.loading import Config, load_config
from ci_doctor.errors import ConfigError, UsageError
from ci_doctor.model.facts.notify import Notification, NotifyState
from ci_doctor.notify.mistakes import mistakes
from ci_doctor.notify.notice import Notice
from ci_doctor.notify.notify import NotifyRequest, notify
from ci_doctor.notify.place import NotifiedPlace, place_of
from ci_doctor.notify.settings import MOST_SECONDS, NotifySettings, is_off
from ci_doctor.session.printing import say
from ci_doctor.system.secrets.redaction import Redactor

_SECTION = "notify"


class ConfiguredNotify(Struct, frozen=True, kw_only=True):
    """`[notify]` without mistakes, and with paths that can be opened."""

    settings: NotifySettings
    place: NotifiedPlace
    limit_s: float


def configured_notify(config_path: Path | None) -> ConfiguredNotify:
    """What the configuration says. Raises ConfigError for a mistake, UsageError if nothing is to be sent."""
    loaded = load_config(config_path, Path.cwd())
    settings, origins = decode_section(
        loaded, _SECTION, NotifySettings, environ=os.environ, flags={}
    )
    if is_off(settings):
        raise UsageError(
            "[notify] names no place for a message",
            hint="give it `github`, `slack` or `webhook` (docs/notify.md)",
        )
    for mistake in mistakes(settings):
        keys = ".".join((_SECTION, *mistake.keys))
        where = loaded.where(_SECTION, *mistake.keys)
        raise ConfigError(f"{where}: `{keys}`: {mistake.message}", hint=mistake.hint)
    return ConfiguredNotify(
        settings=_with_paths(loaded, settings, origins),
        place=place_of(os.environ, settings.step),
        limit_s=_limit_s(loaded, settings),
    )


def send(
    notice: Notice, configured: ConfiguredNotify, *, most_s: float = MOST_SECONDS
) -> tuple[Notification, ...]:
    """Send `notice` without secrets, in at most `most_s` seconds; never raises for a failure."""
    hidden: Notice = Redactor.from_environment(os.environ).value(notice)
    return notify(
        NotifyRequest(
            notice=hidden,
            settings=configured.settings,
            environ=os.environ,
            limit_s=min(most_s, configured.limit_s),
        )
    )


def tell(sent: Sequence[Notification]) -> None:
    """A line on stderr for each message that was sent or has failed; one that is skipped is not talked of."""
    for line in told_lines(sent):
        say(f"ci-doctor: {line}\n")


def told_lines(sent: Sequence[Notification]) -> tuple[str, ...]:
    """The same lines. Pure."""
    lines = []
    for each in sent:
        if each.state is NotifyState.FAILED:
            lines.append(f"warning: {each.to}: the message is not sent: {each.reason}")
        elif each.state is not NotifyState.SKIPPED:
            where = f": {each.address}" if each.address else ""
            lines.append(f"{each.to}: the message is {each.state}{where}")
    return tuple(lines)


def _with_paths(loaded: Config, settings: NotifySettings, origins: Origins) -> NotifySettings:
    """The settings with each file as a path from here: they are named from where they stand."""

    def path(key: str, file: str | None) -> str | None:
        return None if file is None else str(path_in(loaded, origins[key], file))

    github, slack, webhook = settings.github, settings.slack, settings.webhook
    if github is not None:
        github = replace(github, token_file=path("github", github.token_file))
    if slack is not None:
        slack = replace(slack, url_file=path("slack", slack.url_file))
    if webhook is not None:
        webhook = replace(
            webhook,
            url_file=path("webhook", webhook.url_file),
            token_file=path("webhook", webhook.token_file),
        )
    return replace(settings, github=github, slack=slack, webhook=webhook)


def _limit_s(loaded: Config, settings: NotifySettings) -> float:
    limit_s = seconds_above_zero(settings.timeout, "notify.timeout")
    if limit_s > MOST_SECONDS:
        where = loaded.where(_SECTION, "timeout")
        raise ConfigError(
            f"{where}: `notify.timeout` is more than {MOST_SECONDS:g} s",
            hint="a message must not hold up a job",
        )
    return limit_s
