# SPDX-License-Identifier: Apache-2.0
"""From source to scopes: what each name is bound to, on which conditions, and the places that use it."""
