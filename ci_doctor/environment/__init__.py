# SPDX-License-Identifier: Apache-2.0
"""Pure. Prepare: version pins, determinism profiles and how they are exported."""
