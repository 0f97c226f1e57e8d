#!/usr/bin/env bash
# resume.sh GYRUS [SIZE [STEPS]]: a training that is killed (SIGKILL) and goes on with --resume has the losses of one that
# was not, bit for bit, on whatever device GYRUS takes. For a bundle on a machine with a GPU: resume.sh ./gyrus. Numbers
# of the log have all digits of their f32, so that equal lines are equal bits.
set -euo pipefail
gyrus=$(realpath "${1:?usage: resume.sh GYRUS [SIZE [STEPS]]}") size=${2:-64} steps=${3:-60}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >c.json <<JSON
{"classes": ["background", "skull", "CSF", "grey matter", "white matter", "ventricles"],
 "network": {"channels": 8, "dilations": [1, 2, 4, 2, 1], "dropout": 0.1},
 "data": {"phantoms": {"count": 4, "sizes": $size, "noise": [1, 6]}},
 "augment": {"flip": ["x"], "rotate": 15, "elastic": 2, "noise": 0.05, "bias": 0.2, "gamma": 0.2},
 "loss": {"cross_entropy": 1, "dice": 1}, "optimizer": {"type": "adamw", "rate": 0.01}, "average": 0.99,
 "schedule": {"type": "cosine", "total": $steps},
 "batch": 2, "accumulate": 2, "checkpoint_every": 7, "steps": $steps}
JSON
losses() { sed -n 's/.*"step":\([0-9]*\).*"loss":\([^,}]*\).*/\1 \2/p' "$1/log.jsonl"; }
count() { [ -f "$1/log.jsonl" ] && wc -l <"$1/log.jsonl" || echo 0; }

"$gyrus" train c.json --out whole --quiet
kills=0
for at in $((steps / 4)) $((steps / 2)) $((steps * 3 / 4)); do
  resume=()
  [ -f cut/checkpoint.json ] && resume=(--resume)
  "$gyrus" train c.json --out cut --quiet "${resume[@]}" &
  child=$!
  while kill -0 $child 2>/dev/null && [ "$(count cut)" -lt "$at" ]; do sleep 0.02; done
  if kill -KILL $child 2>/dev/null; then kills=$((kills + 1)); fi
  wait $child 2>/dev/null || true
  [ -f cut/checkpoint.json ] || rm -rf cut
done
[ $kills -gt 0 ] || { echo "resume: the training ended before it could be killed; give more STEPS" >&2; exit 1; }
"$gyrus" train c.json --out cut --quiet --resume

losses whole >whole.txt
losses cut >cut.txt
[ "$(wc -l <whole.txt)" -eq "$steps" ] || { echo "resume: $(wc -l <whole.txt) losses of $steps steps" >&2; exit 1; }
diff whole.txt cut.txt || { echo "resume: losses differ" >&2; exit 1; }
cmp whole/model/model.safetensors cut/model/model.safetensors
echo "resume: $steps losses and the weights are the same bit for bit after $kills kills"
tail -n 1 whole.txt
