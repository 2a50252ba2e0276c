# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts that decide whether a thing made elsewhere may be used here."""
