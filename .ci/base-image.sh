#!/usr/bin/env bash
# base-image.sh OUT.sif : a small stand-in for NVIDIA's PyTorch image, which a machine without its registry cannot pull, so that
# the real definition is built in tests; 3 minutes. Like it, it holds torch (the processor's build) and nsys on PATH, and a file
# that PIP_CONSTRAINT names pins every package. One of these is older than requirements.txt wants: the base's pin must win.
set -euo pipefail
out=$(realpath -m "$1")
if [ -s "$out" ]; then exit 0; fi

root=$(mktemp -d)
trap 'rm -rf "$root" "$root.def"' EXIT
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' | grep -v security | head -n 1)
packages=python3,python3-venv,python3-pip,python3-dev,gcc,ca-certificates,procps
nsys_needs=libelf1,libdw1,libpfm4,libssh-4,libcurl4,zlib1g
/usr/sbin/debootstrap --variant=minbase --include="$packages,$nsys_needs" bookworm "$root" "$mirror" >/dev/null
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"  # whom this machine trusts
printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$root/etc/pip.conf"

mkdir -p "$root/wheels" "$root/etc/pip"
python3 -m pip download -q --no-deps --python-version 3.11 --only-binary=:all: --dest "$root/wheels" torch==2.13.0
chroot "$root" pip3 install -q --break-system-packages --no-cache-dir --root-user-action=ignore \
  --find-links /wheels torch==2.13.0 numpy jinja2==3.1.5
rm -rf "$root/wheels"
chroot "$root" python3 -m pip freeze >"$root/etc/pip/constraint.txt"

nsys=$(dirname "$(dirname "$(realpath "$(command -v nsys)")")")
mkdir -p "$root/opt" && cp -a "$nsys" "$root/opt/nsys"
ln -s /opt/nsys/target-linux-x64/nsys "$root/usr/local/bin/nsys"

rm -rf "$root"/dev/* "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
chown -R 0:0 "$root"  # an unprivileged build cannot set other owners
chmod -R u+rwX "$root"
cat >"$root.def" <<DEF
Bootstrap: localimage
From: $root
%environment
    export PIP_CONSTRAINT=/etc/pip/constraint.txt
DEF
mkdir -p "$(dirname "$out")"
unshare -r -m apptainer build --force --mksquashfs-args "-comp lz4" "$out.part" "$root.def"
mv "$out.part" "$out"
