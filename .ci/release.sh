#!/usr/bin/env bash
# release.sh STEP : a step of a release, in this order. .github/workflows/release.yml calls them; `make release` all but the last.
#   build FOLDER    make the source distribution, and from it the wheel. TAG, if set, must name the version
#   check FOLDER    let twine check both; exit status 3 if twine cannot be had
#   try FOLDER      install each in a clean environment, prove two commands there. PACKAGES, if set, is a folder of site-packages that
#                   has what they require; default: pip installs it
#   image NAME      build the container's image, push it as NAME:VERSION. It needs Docker and 60 GB
set -euo pipefail
cd "$(dirname "$0")/.."
usage="usage: release.sh build FOLDER | check FOLDER | try FOLDER | image NAME"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() {
  local tag=${TAG:-v$version} unready
  [ "$tag" = "v$version" ] || { echo "pyproject.toml: version $version, but the tag is $tag; make them agree" >&2; exit 1; }
  if [ -n "${TAG:-}" ] && unready=$(grep -nE 'not on PyPI yet|no release yet' README.md SECURITY.md docs/*.md); then
    printf '%s\nno longer true after a release; change these lines first\n' "$unready" >&2
    exit 1
  fi
  # Nothing but files of the repository; records and tests are not needed to build.
  mkdir "$work/source"
  git ls-files -zco --exclude-standard -- . ':!records' ':!tests' ':!workloads' | tar --null --files-from=- -c | tar -x -C "$work/source"
  if [ -n "${GITHUB_REPOSITORY:-}" ]; then # an index shows the README alone, where relative links lead nowhere
    local home=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY
    sed -Ei "s~(!\[[^]]*\]\()([^):#]+\))~\1$home/raw/$tag/\2~g; s~(\]\()([^):#]+(#[^)]*)?\))~\1$home/blob/$tag/\2~g" "$work/source/README.md"
  fi
  rm -f "$1"/speedproof-*
  TMPDIR=$work .venv/bin/uv build --quiet --no-build-isolation --python .venv/bin/python --no-create-gitignore --out-dir "$1" "$work/source"
}

check() {
  if ! .venv/bin/uv --quiet tool run twine==6.2.0 --version >/dev/null 2>&1; then
    echo "release: not checked: twine cannot be had; run this step on a machine that reaches a package index"
    exit 3
  fi
  .venv/bin/uv --quiet tool run twine==6.2.0 check --strict "$1"/speedproof-*
}

try() { # FILE
  local environment="$work/environment" packages=${PACKAGES:-} status=0
  rm -rf "$environment" "$work/empty"
  mkdir "$work/empty"
  "${PYTHON:-python3}" -m venv "$environment"
  local python="$environment/bin/python"
  if [ -n "$packages" ]; then
    PYTHONPATH=$packages "$python" -m pip install --quiet --ignore-installed --no-index --no-deps --no-build-isolation "$1"
    echo "$packages" >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages.pth"
  else
    "$python" -m pip install --quiet "$1"
  fi
  cd "$work/empty"
  "$python" -c 'import speedproof, sys; sys.exit(not speedproof.__file__.startswith(sys.prefix))'
  # A busy machine may leave even these two inconclusive (2).
  "$environment/bin/speedproof" prove 'sleep 0.6' 'sleep 0.1' --rounds 4 --claim '>= 1.2' --out out || status=$?
  [ "$status" = 0 ] || [ "$status" = 2 ] || exit "$status"
  [ -s out/results/report.html ] && [ "$(ls)" = out ]
  cd "$OLDPWD"
}

image() {
  local name=${1,,} # registries take lower case only
  docker build --tag "$name:$version" containers
  docker login "${name%%/*}" --username "$GITHUB_ACTOR" --password-stdin <<<"$GITHUB_TOKEN"
  docker push "$name:$version"
}

[ $# = 2 ] || { echo "$usage" >&2; exit 2; }
case $1 in
build) build "$2" ;;
check) check "$2" ;;
try) for file in "$(realpath "$2")"/speedproof-*; do try "$file"; done ;;
image) image "$2" ;;
*) echo "$usage" >&2 && exit 2 ;;
esac
