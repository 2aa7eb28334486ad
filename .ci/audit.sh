#!/usr/bin/env bash
# Look up known vulnerabilities of the pinned packages in the public database. Exit status: 1 if there are any, 3 if the database
# cannot be reached. An auditor that reaches nothing may report no problem, so it first has to find a vulnerability that is known.
set -euo pipefail
cd "$(dirname "$0")/.."
audit() { .venv/bin/uv --quiet tool run pip-audit==2.10.1 --disable-pip --progress-spinner off "$@"; }
old=$(mktemp)
trap 'rm -f "$old"' EXIT
echo 'jinja2==2.4.1' >"$old"
if ! audit --no-deps --requirement "$old" 2>&1 | grep -qE 'CVE-|PYSEC-|GHSA-'; then
  echo "audit: not run: the public database of vulnerabilities cannot be reached; run 'make audit' on a machine that can reach it"
  exit 3
fi
for file in requirements.lock requirements.nnunet.lock containers/requirements.txt; do
  audit --strict --require-hashes --requirement "$file"
done
