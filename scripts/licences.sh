#!/usr/bin/env bash
# licences.sh OUT FILE…: writes the licences of what lies beside gyrus in a bundle or package into OUT: those of Debian's
# packages that hold the libraries FILE…, of the libraries that gyrus is compiled with, and Dawn's.
set -euo pipefail
out=$(realpath -m "${1:?usage: licences.sh OUT FILE…}")
shift
cd "$(dirname "$0")/.."
# What a build in the tree is linked with, where no file is named.
[ $# -gt 0 ] || set -- $(ldconfig -p | awk '$1 ~ /^(libdeflate|libpng16|libjpeg|libz)\.so/ && /x86-64/ {print $NF}')
# In the program itself, as headers or as text of the page.
packages=(nlohmann-json3-dev libtomlplusplus-dev libcli11-dev libcpp-httplib-dev)
for file in "$@"; do
  # Debian knows some libraries by the path before /usr was merged.
  real=$(realpath "$file")
  owner=$(dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}" 2>/dev/null || true)
  [ -n "$owner" ] && packages+=("${owner%%:*}")
done
{
  printf 'gyrus is under the MIT licence, which stands in LICENSE. What comes with it:\n'
  printf '%s\n' "${packages[@]}" | sort -u | while read -r package; do
    text=/usr/share/doc/$package/copyright
    [ -f "$text" ] || continue
    printf '\n==== %s ====\n\n' "$package"
    cat "$text"
  done
  for dawn in node_modules/bun-webgpu-linux-x64 node_modules/bun-webgpu; do
    [ -f "$dawn/LICENSE" ] || continue
    printf '\n==== Dawn, as %s packages it ====\n\n' "$(basename "$dawn")"
    cat "$dawn/LICENSE"
  done
  printf '\n==== Dawn ====\n\n'
  cat <<'DAWN'
Copyright 2017-2026 The Dawn & Tint Authors

Redistribution and use in source and binary forms, with or without
modification, are permitted provided that the following conditions are met:

1. Redistributions of source code must retain the above copyright notice, this
   list of conditions and the following disclaimer.

2. Redistributions in binary form must reproduce the above copyright notice,
   this list of conditions and the following disclaimer in the documentation
   and/or other materials provided with the distribution.

3. Neither the name of the copyright holder nor the names of its
   contributors may be used to endorse or promote products derived from
   this software without specific prior written permission.

THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS"
AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE
IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE
FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,
OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
DAWN
  # Where Dawn is not Debian's, whose own file above tells it, it holds these too.
  if ! printf '%s\n' "${packages[@]}" | grep -q dawn; then
    printf '\n==== SPIRV-Tools (The Khronos Group Inc., Google LLC and others) and Abseil (The Abseil Authors), in Dawn ====\n\n'
    cat /usr/share/common-licenses/Apache-2.0
  fi
} >"$out"
