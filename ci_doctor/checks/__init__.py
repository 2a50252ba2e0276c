# SPDX-License-Identifier: Apache-2.0
"""Is this machine fit for the job: checks of the machine, the checkout and the interpreters."""
