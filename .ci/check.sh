#!/usr/bin/env bash
# check.sh install | lint | docs | bare | tools | sources : one part of CI, which .ci/run and .github/workflows call. Only `tools`
# needs more than Python, make and a compiler: .ci/run installs that. `sources` needs the web.
# PYTHON names the interpreter of a new .venv; default: python3.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(command -v "${PYTHON:-python3}")

# Required on every machine, and on those with tools: a test that needs one of these fails instead of being skipped.
everywhere=lock,triton
[ ! -d ../shared/samples ] || everywhere+=,samples
tools=nsys,apptainer,slurm,chromium

case ${1:-} in
install)
  make PYTHON="$python" .venv/.installed
  ;;
lint)
  make PYTHON="$python" lint
  bash .ci/audit.sh || [ $? = 3 ] # 3: not run, which it prints
  ;;
docs)
  make PYTHON="$python" docs
  ;;
bare) # all tests, as on a machine without these tools
  SPEEDPROOF_REQUIRE=$everywhere SPEEDPROOF_HIDDEN=$tools bash .ci/bare.sh make PYTHON="$python" test TESTS="-n 2"
  ;;
tools) # Only a few of the expensive faults are injected, chosen by the commit.
  export SPEEDPROOF_REQUIRE=$everywhere,$tools
  make PYTHON="$python" test TESTS="-n 2 -m '(parts or dear) and not faults'"
  make PYTHON="$python" faults PART=auto
  ;;
sources) # whether the sources of the ledger are still on the web
  .venv/bin/speedproof ledger check --online
  ;;
*)
  echo "usage: check.sh install | lint | docs | bare | tools | sources" >&2
  exit 2
  ;;
esac
