#!/bin/sh
# fuzz.sh SECONDS [TARGET]: builds the fuzzers (preset "asan", which they share with the sanitized tests) and runs each, or only TARGET, for SECONDS over its seeds.
# Inputs found on the way stay in a temporary folder; what crashes is copied to build/asan/crashes and the exit is not 0.
set -eu
seconds=${1:?usage: fuzz.sh SECONDS [TARGET]}
only=${2:-}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
cmake --preset asan >/dev/null
cmake --build --preset asan --target "${only:+fuzz_}${only:-fuzzers}" -j "$(nproc)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
crashes="$root/build/asan/crashes"

# One fuzzer over its seeds; what it said comes out in one piece, since several run at a time.
fuzz() {
  name=${1##*/fuzz_}
  mkdir -p "$work/$name/corpus" "$work/$name/crashes"
  [ ! -d "tests/fuzz/corpus/$name" ] || cp "tests/fuzz/corpus/$name"/* "$work/$name/corpus"
  dict="tests/fuzz/$name.dict"
  if "$1" -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=3072 -print_final_stats=1 \
      ${dict:+$([ -f "$dict" ] && echo "-dict=$dict")} -artifact_prefix="$work/$name/crashes/" \
      "$work/$name/corpus" >"$work/$name/log" 2>&1; then
    echo "fuzz $name: $seconds s, $(grep -E 'stat::number_of_executed_units|stat::peak_rss_mb' "$work/$name/log" | tr -s ' \n' ' ')"
    return 0
  fi
  mkdir -p "$crashes"
  cp "$work/$name/crashes"/* "$crashes/" 2>/dev/null || true
  echo "$(tail -40 "$work/$name/log")
fuzz $name: FAILED, input in $crashes"
  touch "$work/failed"
}

running=0
for program in build/asan/tests/fuzz/fuzz_*; do
  [ -x "$program" ] && [ -f "$program" ] || continue
  [ -z "$only" ] || [ "$only" = "${program##*/fuzz_}" ] || continue
  fuzz "$program" &
  running=$((running + 1))
  if [ "$running" -ge "$(nproc)" ]; then
    wait
    running=0
  fi
done
wait
[ ! -e "$work/failed" ]
