#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the site of these pages into build/site, and opens nothing on a network: sh docs/build.sh [DIRECTORY]
# It needs the extra `docs`, as in: .venv/bin/pip install -e '.[docs]'
set -eu

cd -- "$(dirname -- "$0")/.."
venv=${CI_DOCTOR_VENV:-.venv}
site=${1:-build/site}
python=python3
[ ! -x "$venv/bin/python" ] || python=$venv/bin/python

# A warning is an error: a link that leads nowhere, a page without a place. Each build reads all pages: one that reads what has
# changed repeats no warning.
"$python" -m sphinx --builder html --fresh-env --write-all --fail-on-warning --keep-going --quiet --conf-dir docs/site \
  --doctree-dir "$site.doctrees" . "$site"
echo "$site/index.html"
