#!/usr/bin/env bash
# bundle.sh BUILD OUT: the programs of a build with the shared libraries that they need beside them, so that they run on
# a machine with only libc and libstdc++ (same or newer). The Vulkan driver is the machine's own.
set -euo pipefail
build=${1:?usage: bundle.sh BUILD OUT} out=${2:?usage: bundle.sh BUILD OUT}
rm -rf "$out"
mkdir -p "$out"
out=$(realpath "$out")

programs=("$build/bin/gyrus")
for program in "$build"/bench/*; do
  [ -f "$program" ] && [ -x "$program" ] && programs+=("$program")
done
cp "${programs[@]}" "$out"

# All that the loader finds for them but the C and C++ libraries, which every machine has.
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -Ev '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' |
  while read -r library; do cp -L "$library" "$out"; done
# Dawn loads the Vulkan loader at run time by this name.
loader=$(ldconfig -p 2>/dev/null | awk '/libvulkan\.so\.1 / && !found++ {print $NF}')
[ -n "$loader" ] || { echo "bundle: libvulkan.so.1 is not installed" >&2; exit 1; }
cp -L "$loader" "$out/libvulkan.so.1"
# What gyrus export and gyrus web need beside the program, where make web was run.
web=$(dirname "$0")/../web/dist
if [ -f "$web/gyrus.js" ]; then
  mkdir "$out/web"
  cp -r "$web"/{gyrus.js,gyrus.d.ts,example,page} "$out/web"
else
  echo "bundle: web/dist is not built, so gyrus export and gyrus web will not work from this bundle; make web builds it" >&2
fi
# NVIDIA without a display: VK_ICD_FILENAMES may name this file; gyrus tries the same by itself.
cat >"$out/nvidia_egl_icd.json" <<'JSON'
{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0", "api_version": "1.4.303"}}
JSON
strip --strip-unneeded "$out"/*.so* 2>/dev/null || true
for program in "${programs[@]}"; do
  echo "file(RPATH_SET FILE \"$out/$(basename "$program")\" NEW_RPATH \"\$ORIGIN\")" >"$out/rpath.cmake"
  cmake -P "$out/rpath.cmake"
  rm "$out/rpath.cmake"
  LD_LIBRARY_PATH="$out" ldd "$out/$(basename "$program")" | grep -q 'not found' && { echo "bundle: $program lacks a library" >&2; exit 1; }
done
du -sh "$out" | awk '{print "bundle: " $2 ", " $1}'
