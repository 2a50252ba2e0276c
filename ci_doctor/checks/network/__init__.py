# SPDX-License-Identifier: Apache-2.0
"""Names, proxies and ports."""
