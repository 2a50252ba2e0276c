# SPDX-License-Identifier: Apache-2.0
"""The report of an experiment: where answers diverge, suspects, findings, and replay. Pure."""
