# SPDX-License-Identifier: Apache-2.0
"""Real servers on this machine's processors: environments, models, experiments, planted faults and failures."""
