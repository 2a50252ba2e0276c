# SPDX-License-Identifier: Apache-2.0
"""Pure. The identity of a cache in three tiers."""

from msgspec import Struct

from ci_doctor.identity.identity import Identity


class Tiers(Struct, frozen=True, kw_only=True):
    """`hard` facts must be equal; `path` facts are baked into files; `soft` ones only rank."""

    hard: Identity
    path: Identity
    soft: Identity
