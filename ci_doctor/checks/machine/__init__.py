# SPDX-License-Identifier: Apache-2.0
"""The machine: memory, disks, limits, clock."""
