# SPDX-License-Identifier: Apache-2.0
"""Makes a hazard happen, by a delay at one of its imports."""
