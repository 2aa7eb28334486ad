#!/usr/bin/env bash
# Install Nsight Systems 2023.4.4 from Debian's non-free section, with `nsys` on PATH: profile, export, stats, analyze. For Debian
# bookworm, as root; 20 s. It needs no GPU: NVTX and OS-runtime traces work on a CPU machine. This version records Python's NVTX
# ranges only with nvtx <= 0.2.11; it silently drops those of newer versions.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/debs.sh"
prefix=/usr/local/lib/nsight-systems
if nsys --version >/dev/null 2>&1; then exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apt-get -qq update
apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends \
  libssh-4 libpfm4 libelf1 libdw1 libcurl4 zlib1g >/dev/null
fetch_debs trixie non-free "$work" nsight-systems nsight-systems-target
for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$work/root"; done

rm -rf "$prefix" && mkdir -p "$prefix"
cp -a "$work/root/usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64" "$prefix/"
cp -a "$work/root/usr/lib/nsight-systems/host-linux-x64" "$prefix/"  # nsys looks for its importer beside its own folder
for name in libssh.so libssh.so.4; do
  ln -sf /usr/lib/x86_64-linux-gnu/libssh.so.4 "$prefix/host-linux-x64/$name"
done
for library in nsysstats.py gpustats.py; do  # imported by `nsys stats` and `nsys analyze`
  found=$(find "$work/root" -name "$library" | head -n 1)
  for side in target host; do
    [ -z "$found" ] || cp -n "$found" "$prefix/$side-linux-x64/python/lib/" 2>/dev/null || true
  done
done
ln -sf "$prefix/target-linux-x64/nsys" /usr/local/bin/nsys
nsys --version
