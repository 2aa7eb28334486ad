#!/usr/bin/env bash
# plain.sh COMMAND... : run a command without root's rights. Root becomes user 1000 of a user namespace, who owns this folder, and has
# a home and temporary folders of its own: proofs watch these, and cannot know which of their files are other tests'. Anyone else runs
# the command as it is, and so does root if the machine forbids user namespaces. The exit status is the command's.
set -euo pipefail
[ "$(id -u)" = 0 ] || exec "$@"
unshare --user --map-root-user --mount true 2>/dev/null || {
  echo "plain.sh: no user namespaces on this machine; running as root" >&2
  exec "$@"
}

private=$(mktemp -d)
trap 'rm -rf "$private"' EXIT
mkdir -p "$private"/{tmp/home,var}
case $PWD in /tmp/* | /var/tmp/*) # its own folder must stay in sight
  unshare --user --map-user=1000 --map-group=1000 env HOME="$private/tmp/home" "$@"
  exit
  ;;
esac
unshare --user --map-root-user --mount bash -euc '
  private=$1 here=$PWD; shift
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  mount --bind "$private/var" /var/tmp
  mount -t tmpfs -o mode=1777 tmpfs /tmp # tests make and remove many small files, for which a disk takes longer
  mkdir /tmp/home
  cd "$here"
  exec unshare --user --map-user=1000 --map-group=1000 env -u TMPDIR HOME=/tmp/home "$@"
' plain "$private" "$@"
