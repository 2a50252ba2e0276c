# SPDX-License-Identifier: Apache-2.0
"""Samples that somebody else collected: read in whatever form they come, and compared."""
