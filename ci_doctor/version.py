# SPDX-License-Identifier: Apache-2.0
"""Reads this tool's version, if possible without importlib.metadata: 20 ms of start-up; and the name that it is installed under."""

DISTRIBUTION = "ci-doctor-toolkit"


def install_extra(extra: str) -> str:
    """The command that adds the packages of one of our extras to this installation."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


# --- the version ---


def tool_version() -> str:
    """The version written at build time, else that of the installed distribution.

    `0+unknown` if neither is there, in a tree that was never built.
    """
    try:
        from ci_doctor._version import VERSION
    except ImportError:
        return _installed_version()
    return str(VERSION)


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+unknown"
