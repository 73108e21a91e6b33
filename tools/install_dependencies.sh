#!/bin/sh
# Installs what building and testing need and the machine lacks, from the distribution's packages.
#
#     tools/install_dependencies.sh build|test|interop|launchers|format...
#
# Says what it installs and why. Prints nothing where all is there. Needs apt (Debian 12, Ubuntu
# 24.04 or newer) and root or sudo to install; else it names what is missing and stops.
set -eu

cxx=${CXX:-g++}
missing=

want() { # package, why
  missing="$missing $1"
  reasons="${reasons:-}
  $(printf '%-22s %s' "$1" "$2")"
}

have() { command -v "$1" >/dev/null 2>&1; }

# Library packages are asked of the preprocessor, all in one go, so that a copy from elsewhere counts.
libraries='
libexpected-dev     tl/expected.hpp        tl::expected, which Result<T> stands on
nlohmann-json3-dev  nlohmann/json.hpp      reading and writing JSON
libcli11-dev        CLI/CLI.hpp            the command line
libfmt-dev          fmt/format.h           formatted messages
libhwy-dev          hwy/highway.h          vectorised conversions
libeigen3-dev       eigen3/Eigen/Core      folding LoRA adapters into weights
libdeflate-dev      libdeflate.h           CRC-32 of zip records
libxxhash-dev       xxhash.h               hashes of output blocks
libgloo-dev         gloo/context.h         ranks that are processes
libcurl4-openssl-dev curl/curl.h           uploads
libssl-dev          openssl/evp.h          SHA-256 of what is uploaded
libgtest-dev        gtest/gtest.h          unit tests
libgmock-dev        gmock/gmock.h          matchers in unit tests'

check_build() {
  have "$cxx" || want g++ "the compiler (C++20)"
  have cmake || want cmake "the build description"
  have ninja || want ninja-build "the build tool"
  have pkg-config || want pkg-config "finds libdeflate"
  absent=
  if have "$cxx"; then
    absent=$(printf '%s\n' "$libraries" | while read -r package header why; do
      [ -z "$package" ] || printf '#if !__has_include(<%s>)\nabsent %s\n#endif\n' "$header" "$package"
    done | "$cxx" -std=c++20 -E -P -x c++ - | sed -n 's/^absent //p' | tr -d ' ')
  else
    absent=$(printf '%s\n' "$libraries" | awk 'NF { print $1 }')
  fi
  for package in $absent; do
    want "$package" "$(printf '%s\n' "$libraries" |
      awk -v p="$package" '$1 == p { $1 = $2 = ""; sub(/^ +/, ""); print }')"
  done
}

check_test() {
  have python3 || want python3 "tests of the program and of the source tree (standard library only)"
  have openssl || want openssl "makes the certificate of a test of uploads"
}

check_interop() {
  if ! have python3 || ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    want python3-venv "a virtual environment for PyTorch"
  fi
}

check_launchers() {
  have mpirun || want openmpi-bin "mpirun, for tests of what it starts"
  have srun || want slurm-client "srun, for tests of what it starts"
  have slurmctld || want slurmctld "a cluster for srun, while a test runs"
  have slurmd || want slurmd "its node"
}

check_format() {
  have clang-format-14 || want clang-format-14 "lays C++ out"
}

[ $# -gt 0 ] || { echo "usage: $0 build|test|interop|launchers|format..." >&2; exit 2; }
for group in "$@"; do
  case $group in
    build) check_build ;;
    test) check_test ;;
    interop) check_interop ;;
    launchers) check_launchers ;;
    format) check_format ;;
    *) echo "$0: no group is called $group" >&2; exit 2 ;;
  esac
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
  if have sudo; then as_root=sudo; else as_root=none; fi
fi
if ! have apt-get || [ "$as_root" = none ]; then
  {
    echo "shardkit needs these packages (Debian's names), which are not here:${reasons}"
    if have apt-get; then
      echo "Run as root: apt-get install$missing"
    else
      echo "There is no apt-get to install them with: please install them with your own tools."
    fi
  } >&2
  exit 1
fi

echo "shardkit needs these packages, which are not here; apt-get installs them:${reasons}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
  if ! $as_root env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "This command failed: $as_root $*" >&2
    exit 1
  fi
}
quietly apt-get update
# shellcheck disable=SC2086  # one word a package
quietly apt-get install -y --no-install-recommends $missing
echo "Installed."
