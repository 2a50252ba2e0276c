# SPDX-License-Identifier: Apache-2.0
"""From a recorded process to its import hazards. Pure."""
