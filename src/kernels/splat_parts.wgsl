// splat_parts.wgsl: what both ways of splats share. A workgroup has {{wg}} pixels of a tile of 16 x 16, one a lane, and
// takes {{batch}} splats of the tile's list at a time into workgroup memory.
const kMostCovered = 0.99;
const kLeastCovered = 1.0 / 255.0;

// The splats of a tile at places [first, first + {{batch}}), as far as there are any.
fn load_batch(first: u32, end: u32, lane: u32) {
  for (var i = lane; i < {{batch}}u * 9u; i += {{wg}}u) {
    let place = first + i / 9u;
    if (place < end) {
      let s = u32(lists[P.tiles + 1u + place + P.lists_shift]);
      batch[i] = splats[s * 9u + i % 9u + P.splats_shift];
    }
  }
}

// How much splat j of the batch covers at a distance from its centre; 0 where it is left out.
fn coverage(j: u32, away: vec2<f32>) -> f32 {
  let at = j * 9u;
  let power = -0.5 * (batch[at + 2u] * away.x * away.x + batch[at + 4u] * away.y * away.y) -
              batch[at + 3u] * away.x * away.y;
  let covered = min(kMostCovered, batch[at + 5u] * exp(power));
  return select(covered, 0.0, power > 0.0 || covered < kLeastCovered);
}

fn colour_of(j: u32) -> vec3<f32> {
  return vec3<f32>(batch[j * 9u + 6u], batch[j * 9u + 7u], batch[j * 9u + 8u]);
}
