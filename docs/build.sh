#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the site of these pages into build/site, and opens nothing on a network: sh docs/build.sh [DIRECTORY]
# It needs the extra `docs`: sh bootstrap.sh docs
set -eu

cd -- "$(dirname -- "$0")/.."
venv=${CI_DOCTOR_VENV:-.venv}
site=${1:-build/site}
python=python3
[ ! -x "$venv/bin/python" ] || python=$venv/bin/python

if ! "$python" -c 'import furo, myst_parser, sphinx' 2>/dev/null; then
  echo "docs/build.sh: the extra \`docs\` is not installed" >&2
  echo "  hint: sh bootstrap.sh docs" >&2
  exit 2
fi

# A warning is an error: a link that leads nowhere, a page without a place. Each build reads all pages: one that reads what has
# changed repeats no warning.
"$python" -m sphinx --builder html --fresh-env --write-all --fail-on-warning --keep-going --quiet --conf-dir docs/site \
  --doctree-dir "$site.doctrees" . "$site"
echo "$site/index.html"
