# SPDX-License-Identifier: Apache-2.0
"""The log of each start: opened, bounded and watched. Pure."""
