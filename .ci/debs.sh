# Source this file. `fetch_debs SUITE COMPONENTS FOLDER PACKAGE...` downloads .deb files of another Debian suite into FOLDER, from
# the mirror that this machine uses, without changing its apt sources.
fetch_debs() {
  local suite=$1 components=$2 folder=$3; shift 3
  local apt; apt=$(mktemp -d)
  local mirror; mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' | grep -v security | head -n 1)
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$folder"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite $components" >"$apt/sources.list"
  local options=(-qq -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$apt/lists"
    -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  (cd "$folder" && apt-get "${options[@]}" download "$@")
  rm -rf "$apt"
}
