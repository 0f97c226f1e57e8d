#!/usr/bin/env bash
# release.sh OUT: what is given out, in OUT: a package for Debian, the bundle as an archive, the one with its own C library
# where build/release-bundle-own-libc was made, and their SHA-256. make release makes those and calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: release.sh OUT}
version=$(sed -n 's/^project(gyrus VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
rm -rf "$out"
mkdir -p "$out"
out=$(realpath "$out")
(cd build/release && cpack -G DEB -B "$out" >/dev/null)
rm -rf "$out/_CPack_Packages"
archive() {
  local from=$1 name=gyrus-$version-$2
  [ -d "$from" ] || { echo "release: $from is not there, so $name is left out" >&2; return 0; }
  tar -C "$from" --transform "s,^\.,$name," --sort=name --owner=0 --group=0 -cJf "$out/$name.tar.xz" .
}
archive build/release-bundle linux-x86_64
archive build/release-bundle-own-libc linux-x86_64-own-libc
(cd "$out" && sha256sum -- *.deb *.tar.xz >SHA256SUMS)
ls -sh "$out"
