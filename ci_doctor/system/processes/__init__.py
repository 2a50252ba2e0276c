# SPDX-License-Identifier: Apache-2.0
"""Processes: started, listed, watched, signalled, reaped."""
