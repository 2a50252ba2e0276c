# SPDX-License-Identifier: Apache-2.0
"""The log of each start: opened and watched. Pure."""
