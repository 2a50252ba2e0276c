# SPDX-License-Identifier: Apache-2.0
"""A script as it is, watched: its processes, servers, waits, stalls, and what it leaves."""
