#!/usr/bin/env bash
# bench.sh [ARGUMENTS of build/release/bench/models]: kernel shapes, then the brain models where the test data is.
set -euo pipefail
cd "$(dirname "$0")/.."
build/release/bench/conv_shapes
data=${GYRUS_TEST_DATA:-../shared/data}
if [ -d "$data/models" ]; then
  build/release/bench/models "$data/volumes/t1_crop.nii.gz" "$data/models" --reference "$data/reference/full" "$@"
else
  echo "bench: no models at $data; set GYRUS_TEST_DATA"
fi
