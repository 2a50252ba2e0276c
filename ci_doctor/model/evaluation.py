# SPDX-License-Identifier: Apache-2.0
"""Pure. How a shell evaluates the exports of `setup-env`: the one form that every remedy names."""

from typing import Final

# Always exported, and last: it says that `setup-env` ran for this job. Without it an empty text
# could be the exports of a run with nothing to export.
PREPARED = "CI_DOCTOR_PREPARED"

# How a shell evaluates the exports so that nothing goes on without all of them: neither if Python
# dies before our code runs, nor if what is called `ci-doctor` prints something else, or a part, and
# ends with 0. It holds without `set -e` too; benchmarks/eval_forms.py compares it with others in
# real shells. PREPARED is looked for in the text: an earlier step may have set the variable.
EVALUATION: Final = (
    f"exports=$(ci-doctor setup-env) && case $exports in *{PREPARED}=*) "
    'eval "$exports" ;; *) false ;; esac || exit'
)
# In lines of its own: fish joins a list that it evaluates by spaces.
FISH_EVALUATION: Final = (
    "set exports (ci-doctor setup-env --format fish); "
    f"and string match -q '*{PREPARED}*' -- \"$exports\"; "
    "and string join -- \\n $exports | source; or exit"
)
