# SPDX-License-Identifier: Apache-2.0
"""From hazards to findings, remedies, a verdict and a timeline. Pure."""
