# SPDX-License-Identifier: Apache-2.0
"""Who has signed what a store holds, and which scopes a job may read and write."""
