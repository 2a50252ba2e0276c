# SPDX-License-Identifier: Apache-2.0
"""The `[exit-codes]` section: a repository's own numbers for the verdicts, as far as they can serve."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict

from ci_doctor.config.decoding import DEFAULT, decode_section
from ci_doctor.config.loading import Config
from ci_doctor.errors import ConfigError
from ci_doctor.model.exit_code import ExitCode


class ExitCodes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The exit code of each verdict that has one; `flaky` only where it fails the command."""

    regression: int = ExitCode.FAILURE.value
    flaky: int = ExitCode.FLAKY.value
    nondeterministic: int = ExitCode.NONDETERMINISTIC.value
    infra: int = ExitCode.INFRA.value
    inconclusive: int = ExitCode.UNDECIDED.value
    void: int = ExitCode.UNDECIDED.value


def read_exit_codes(
    config: Config, environ: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, str]]:
    """The codes by verdict, and where each came from. Raises ConfigError for one that cannot serve."""
    settings, origins = decode_section(config, "exit-codes", ExitCodes, environ=environ, flags={})
    codes = {name: int(code) for name, code in asdict(settings).items()}
    for name, code in codes.items():
        if origins[name] != DEFAULT and not _can_serve(code):
            raise ConfigError(
                f"{origins[name]}: {name} = {code} cannot be an exit code of a verdict",
                hint="use 1 to 124 or 255, but not 2 (usage) or 70 (a bug); 125 to 254 belong to the agent and the shell",
            )
    for name, what in (("infra", "is retried"), ("nondeterministic", "is let pass (soft_fail)")):
        if codes[name] == codes["regression"]:
            where = origins[name] if origins[name] != DEFAULT else origins["regression"]
            raise ConfigError(
                f"{where}: {name} and regression share the code {codes[name]}",
                hint=f"a pipeline tells them apart by their codes: {name} {what}, a regression never",
            )
    return codes, origins


def _can_serve(code: int) -> bool:
    return (1 <= code <= 124 or code == 255) and code not in {ExitCode.USAGE, ExitCode.BUG}
