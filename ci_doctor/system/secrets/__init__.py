# SPDX-License-Identifier: Apache-2.0
"""What a secret looks like, and how it is taken out of what others see."""
