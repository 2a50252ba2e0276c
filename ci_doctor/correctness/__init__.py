# SPDX-License-Identifier: Apache-2.0
"""Pure. Run: whether the candidate equals the baseline, and the baseline reproduces itself."""
