#!/bin/sh
# Packs the portable program of a build tree with its licences, and prints the archive's path.
#
#     tools/make_dist.sh BUILD OUT        OUT/shardkit-VERSION-linux-ARCH.tar.gz
#
# The same program and commit give the same archive: names are sorted, owners are 0, the time is
# the commit's.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
program=$1/portable/shardkit
out=$2

# Whose code is in the program, as CMakeLists.txt calls them, and the Debian package that knows
# the licence.
parts='
CLI11         libcli11-dev
Eigen3        libeigen3-dev
fmt           libfmt-dev
hwy           libhwy-dev
libdeflate    libdeflate-dev
libxxhash     libxxhash-dev
nlohmann_json nlohmann-json3-dev
tl-expected   libexpected-dev'

version=$("$program" --version | cut -d' ' -f2)
name=shardkit-$version-linux-$(uname -m)
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT

mkdir -p "$staging/$name/licenses" "$out"
strip -o "$staging/$name/shardkit" "$program"
cp "$root/LICENSE" "$root/README.md" "$staging/$name/"
printf '%s\n' "$parts" | while read -r part package; do
  [ -z "$part" ] || cp "/usr/share/doc/$package/copyright" "$staging/$name/licenses/$part.txt"
done

time=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}
tar -C "$staging" --sort=name --owner=0 --group=0 --numeric-owner --mode=go-w,a+rX \
  --mtime="@$time" -cf "$staging/tar" "$name"
gzip -9n "$staging/tar"
mv "$staging/tar.gz" "$out/$name.tar.gz"
echo "$out/$name.tar.gz"
