# SPDX-License-Identifier: Apache-2.0
"""The names of the ports that are reserved for a group of services. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from ci_doctor.errors import UsageError
from ci_doctor.services.spec import ServiceSpec

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)


def port_names(specs: Mapping[str, ServiceSpec], order: Sequence[str]) -> tuple[str, ...]:
    """What stands before `.port` in the placeholders of the services in `order`.

    `kv` is the service's own port, `kv.http` its further port `http`. Raises UsageError if a name
    cannot stand in a placeholder, or stands for two ports.
    """
    names = list(order)
    for service in order:
        for further in specs[service].ports:
            if not _NAME.fullmatch(further):
                raise UsageError(
                    f'service "{service}": "{further}" cannot name a port',
                    hint='use letters, digits, underscores and hyphens: ports = ["http"]',
                )
            names.append(f"{service}.{further}")
    for name, times in Counter(names).items():
        if times > 1:
            raise UsageError(
                f"the placeholder {{{name}.port}} stands for {times} ports",
                hint="rename one of them, in `ports` or the service itself",
            )
    return tuple(names)
