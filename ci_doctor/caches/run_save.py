# SPDX-License-Identifier: Apache-2.0
"""Acts on a store: a save that ends by its deadline, whatever hangs."""

from collections.abc import Callable

from ci_doctor.caches.bounded import bounded
from ci_doctor.caches.leader import forget
from ci_doctor.caches.save import SaveWork, save_all
from ci_doctor.model.facts.cache import SaveCacheFacts
from ci_doctor.store.deadline import Deadline
from ci_doctor.store.errors import StoreError
from ci_doctor.store.trust.policy import accepts_unsigned


def run_save(work: SaveWork, deadline: Deadline, tell: Callable[[str], None]) -> SaveCacheFacts:
    """Save; what goes wrong with the store is a part of the facts."""
    location = work.target.store.location
    is_signed = work.signer is not None
    is_accepted = is_signed or accepts_unsigned(
        work.target.rules.policy, shared=work.target.store.shared
    )
    try:
        caches = bounded(
            lambda: save_all(work, tell), deadline.left(), "saving caches", work.deadline
        )
    except StoreError as error:
        return SaveCacheFacts(
            store=location,
            scope=work.scope,
            is_signed=is_signed,
            is_accepted=is_accepted,
            caches=(),
            problem=error.message,
            failure=error.reason.value,
        )
    if any(each.result == "saved" for each in caches):
        # A restore of before may have found nothing.
        forget(work.state / "leaders")
    return SaveCacheFacts(
        store=location,
        scope=work.scope,
        is_signed=is_signed,
        is_accepted=is_accepted,
        caches=caches,
    )
