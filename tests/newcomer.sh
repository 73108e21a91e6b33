#!/bin/sh
# Plays a newcomer: a bare Debian 12 with git and make, a clone, `make demo`, `make test`.
#
#     tests/newcomer.sh [TARGET...]        as root, on Debian; default targets: demo test
#
# Makes the bare system with debootstrap in a temporary folder, from the mirror and with the
# settings that apt has here, and removes it at the end. Tests what is committed.
set -eu

suite=bookworm
repository=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
[ $# -gt 0 ] || set -- demo test
[ "$(id -u)" = 0 ] || { echo "$0: must be root (debootstrap, chroot)" >&2; exit 1; }
if ! command -v debootstrap >/dev/null; then
  echo "$0: installing debootstrap"
  { apt-get update && apt-get install -y --no-install-recommends debootstrap; } >/dev/null
fi

root=$(mktemp -d)
finish() {
  code=$?
  umount "$root/proc" "$root/dev/pts" "$root/dev" 2>/dev/null || true
  # Never remove through a mount that did not come off.
  if grep -q " $root/" /proc/mounts; then echo "$root is still mounted: remove it by hand" >&2
  else rm -rf "$root"; fi
  exit $code
}
trap finish EXIT
trap 'exit 130' INT TERM

# The first place apt here has this suite from; not named in this file.
mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT) $(REPO_URI)' 2>/dev/null |
  awk -v s="$suite" '$2 == s && $3 == "main" { print $4; exit }')
[ -n "$mirror" ] || { echo "$0: apt here has no mirror of $suite" >&2; exit 1; }

echo "== a bare Debian ($suite)"
debootstrap --variant=minbase --include=git,make "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
  { tail -n 20 "$root.log" >&2; exit 1; }
rm -f "$root.log"
# The chroot asks for packages where and how this system does.
rm -f "$root/etc/apt/sources.list"
for path in sources.list sources.list.d; do
  [ ! -e "/etc/apt/$path" ] || cp -a "/etc/apt/$path" "$root/etc/apt/"
done
apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/99as-the-host" || true
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount --bind /dev/pts "$root/dev/pts"
# As an installer or a container engine writes it; debootstrap writes none.
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
git clone -q "$repository" "$root/shardkit"

in_root() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"; }
for target in "$@"; do
  echo "== make $target"
  started=$(date +%s)
  in_root make -C /shardkit "$target"
  echo "== make $target: $(($(date +%s) - started)) s"
done
in_root test -x /shardkit/build/shardkit
echo "== a newcomer's first minutes: all passed"
