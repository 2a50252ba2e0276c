# SPDX-License-Identifier: Apache-2.0
"""Reads facts of the machine. No reader here judges: rooms that do share these readers."""
