# SPDX-License-Identifier: Apache-2.0
"""What runs at each start of an interpreter."""
