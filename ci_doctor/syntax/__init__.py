# SPDX-License-Identifier: Apache-2.0
"""Pure. Shell programs and YAML as trees with places: below every room that reads them."""
