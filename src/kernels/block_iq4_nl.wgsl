// block_iq4_nl.wgsl: block of 32: scale (half), nibbles that choose of 16 values.
const kTable = array<f32, 16>(-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0);

fn looked_up(nibbles: u32) -> vec4<f32> {
  let q = bytes_of(nibbles);
  return vec4<f32>(kTable[q.x], kTable[q.y], kTable[q.z], kTable[q.w]);
}

fn unpack(row: u32, unit: u32) -> array<vec4<f32>, 8> {
  let at = row + unit * 18u;
  let scale = half_at(at);
  var w: array<vec4<f32>, 8>;
{{@i=4}}
  {
    let q = word_at(at + 2u + {{i}}u * 4u);
    w[{{i}}] = scale * looked_up(q & 0x0f0f0f0fu);
    w[{{i}} + 4] = scale * looked_up((q >> 4u) & 0x0f0f0f0fu);
  }
{{/i}}
  return w;
}
