# SPDX-License-Identifier: Apache-2.0
"""Lets a command that is not yet on the session run under it."""

from functools import update_wrapper
from typing import Any

import click

from ci_doctor.commands.invocation import Invocation
from ci_doctor.session.session import Session


def legacy(function: Any) -> Any:
    """Hand the old invocation and the output options on."""

    def wrapped(*args: Any, **named: Any) -> Any:
        session = click.get_current_context().find_object(Session)
        assert session is not None  # noqa: S101
        old = Invocation(
            session.invocation.argv, session.invocation.started, session.invocation.started_at
        )
        if "report_dir" in function.__code__.co_varnames:
            named |= {"report_dir": session.named_directory}
        if "as_json" in function.__code__.co_varnames:
            named |= {"as_json": session.as_json}
        return function(old, *args, **named)

    return update_wrapper(wrapped, function)
