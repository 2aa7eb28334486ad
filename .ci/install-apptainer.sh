#!/usr/bin/env bash
# Install Apptainer 1.4.5 from Debian unstable on bookworm, as root; 20 s. Its binaries get a private, newer C library. `apptainer`
# and `singularity` are put on PATH. On machines whose root lacks capabilities, as in many CIs, build images inside `unshare -r -m`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/debs.sh"
if apptainer --version >/dev/null 2>&1; then exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apt-get -qq update
apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends \
  squashfs-tools squashfuse fuse-overlayfs uidmap libseccomp2 libsqlite3-0 patchelf debootstrap >/dev/null
fetch_debs trixie main "$work" libc6
fetch_debs sid main "$work" apptainer

libraries=/opt/apptainer-libc
dpkg-deb -x "$work"/libc6_*.deb "$work/libc"
mkdir -p "$libraries"
cp -a "$work/libc/usr/lib/x86_64-linux-gnu/." "$libraries/"
cp -aL /usr/lib/x86_64-linux-gnu/libseccomp.so.2 /usr/lib/x86_64-linux-gnu/libsqlite3.so.0 "$libraries/"
dpkg-deb -x "$work"/apptainer_*.deb /
for binary in /usr/bin/apptainer /usr/lib/x86_64-linux-gnu/apptainer/bin/starter; do
  patchelf --set-interpreter "$libraries/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$libraries" "$binary"
done
sed -i 's/^root default capabilities = .*/root default capabilities = no/' /etc/apptainer/apptainer.conf
ln -sf apptainer /usr/bin/singularity
apptainer --version
