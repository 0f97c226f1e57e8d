#!/usr/bin/env bash
# package_test.sh BUILD: the package for Debian holds what it should, and what is in it runs.
set -euo pipefail
build=$(realpath "${1:?usage: package_test.sh BUILD}")
command -v dpkg-shlibdeps >/dev/null || { echo "dpkg-dev is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "package: $*" >&2; exit 1; }

(cd "$build" && cpack -G DEB -B "$work" >"$work/log" 2>&1) || { cat "$work/log"; die "cpack failed"; }
package=$(ls "$work"/gyrus_*.deb)
dpkg-deb -f "$package" Depends | grep -q 'libvulkan1' || die "does not depend on the Vulkan loader"
dpkg-deb -f "$package" Depends | grep -q 'libpng16' || die "does not depend on the libraries it is linked with"
dpkg-deb -f "$package" Depends | grep -q 'httplib' && die "depends on cpp-httplib, whose version every Debian changes"
dpkg-deb -x "$package" "$work/root"
usr=$work/root/usr
for file in bin/gyrus include/gyrus/gyrus.h share/man/man1/gyrus.1 share/bash-completion/completions/gyrus \
  share/doc/gyrus/copyright share/doc/gyrus/CITATION.cff; do
  [ -s "$usr/$file" ] || die "$file is missing"
done
for name in libdeflate libpng libjpeg nlohmann Dawn SPIRV-Tools 'Apache License'; do
  grep -qi "$name" "$usr/share/doc/gyrus/third-party-licences" || die "the licence of $name is missing"
done
version=$("$usr/bin/gyrus" --version)
[ "$version" = "gyrus $(dpkg-deb -f "$package" Version | cut -d- -f1)" ] || die "its version is $version"
ldd "$usr/bin/gyrus" | grep -q "not found" && die "a library is not found"
XDG_RUNTIME_DIR=/tmp GYRUS_NO_CACHE=1 "$usr/bin/gyrus" devices >/dev/null || die "it finds no device"
echo "package: $(basename "$package") is whole"
