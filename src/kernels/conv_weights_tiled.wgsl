// conv_weights_tiled.wgsl: the sums of conv_weights.wgsl where there are many channels, from tiles in workgroup memory.
// A workgroup of 32 lanes has a tap of the slower axes, 8 quads of inputs, 8 quads of results and a part, whose rows it
// takes in turn, {{voxels}} voxels at a time. A lane has one quad of inputs, two quads of results and all taps t of the
// row. g_tile [voxel][quad], x_tile the same with the voxels that taps reach besides; 9 units a voxel, not 8, so that
// lanes beside each other write to different banks.
{{head}}
fn g_at(unit: u32, ok: bool) -> vec4<f32> {
  let raw = g[select(0u, unit + P.g_shift, ok)];
  return select(vec4<f32>(0.0), {{unpack_g}}, ok);
}

fn x_at(unit: u32, ok: bool) -> vec4<f32> {
  let raw = x[select(0u, unit + P.x_shift, ok)];
  return select(vec4<f32>(0.0), {{unpack_x}}, ok);
}

{{main}}
  let group = group_index(wid, nwg);
  let part = group / P.tiles;
  let i_first = group % P.i_tiles * 8u;
  let o_first = group / P.i_tiles % P.o_tiles * 8u;
  let tap = group % P.tiles / (P.i_tiles * P.o_tiles);
  let to_z = i32(tap / P.kernel_y * P.dilation_z) - i32(P.pad_z);
  let to_y = i32(tap % P.kernel_y * P.dilation_y) - i32(P.pad_y);
  let i = lane % 8u;
  let o = lane / 8u;
  var a: array<vec4<f32>, {{taps}} * 4>;
  var b: array<vec4<f32>, {{taps}} * 4>;
  var row = select(P.rows, part, group < P.groups);
  for (; row < P.rows; row += P.parts) {
    let slab = row / P.out_h;
    let z = i32(slab % P.out_d * P.stride_z) + to_z;
    let y = i32(row % P.out_h * P.stride_y) + to_y;
    if (z < 0 || z >= i32(P.in_d) || y < 0 || y >= i32(P.in_h)) {
      continue;
    }
    let g_row = slab * P.g_slab_units + o_first * P.g_plane_units + row % P.out_h * P.out_w;
    let x_row = (slab / P.out_d * P.in_d + u32(z)) * P.x_slab_units + i_first * P.x_plane_units + u32(y) * P.in_w;
    for (var first = 0u; first < P.out_w; first += {{voxels}}u) {
      workgroupBarrier();
      for (var n = lane; n < {{voxels}}u * 8u; n += 32u) {
        let v = n % {{voxels}}u;
        let quad = n / {{voxels}}u;
        let ok = first + v < P.out_w && o_first + quad < P.out_quads;
        g_tile[v * 9u + quad] = g_at(g_row + quad * P.g_plane_units + first + v, ok);
      }
      for (var n = lane; n < {{reach}}u * 8u; n += 32u) {
        let v = n % {{reach}}u;
        let quad = n / {{reach}}u;
        let at = i32(first * {{stride}}u + v) - i32(P.pad_x);
        let ok = at >= 0 && at < i32(P.in_w) && i_first + quad < P.in_quads;
        x_tile[v * 9u + quad] = x_at(x_row + quad * P.x_plane_units + u32(max(at, 0)), ok);
      }
      workgroupBarrier();
      var w: array<vec4<f32>, {{taps}}>;
{{#slides}}
{{@t=before}}
      w[{{t}}] = x_tile[{{t}}u * 9u + i];
{{/t}}
{{/slides}}
      for (var v = 0u; v < {{voxels}}u; v++) {
{{#slides}}
        w[{{before}}] = x_tile[(v + {{before}}u) * 9u + i];
{{/slides}}
{{^slides}}
{{@t=taps}}
        w[{{t}}] = x_tile[(v * {{stride}}u + {{t}}u * {{dilation}}u) * 9u + i];
{{/t}}
{{/slides}}
        let s = g_tile[v * 9u + o];
        let r = g_tile[v * 9u + o + 4u];
{{@t=taps}}{{@c=4}}
        a[{{t}} * 4 + {{c}}] = fma(vec4<f32>(s[{{c}}]), w[{{t}}], a[{{t}} * 4 + {{c}}]);
        b[{{t}} * 4 + {{c}}] = fma(vec4<f32>(r[{{c}}]), w[{{t}}], b[{{t}} * 4 + {{c}}]);
{{/c}}{{/t}}
{{#slides}}
{{@t=before}}
        w[{{t}}] = w[{{t}} + 1];
{{/t}}
{{/slides}}
      }
    }
  }
  if (group >= P.groups || i_first + i >= P.in_quads) {
    return;
  }
  let item = (tap * P.out_quads + o_first + o) * P.in_quads + i_first + i;
  let items = P.tiles / (P.i_tiles * P.o_tiles) * P.out_quads * P.in_quads;
  let at = (part * items + item) * {{taps}}u * 4u;
  if (o_first + o < P.out_quads) {
{{@n=sums}}
    sums[at + {{n}}u] = a[{{n}}];
{{/n}}
  }
  if (o_first + o + 4u < P.out_quads) {
    let other = at + 4u * P.in_quads * {{sums}}u;
{{@n=sums}}
    sums[other + {{n}}u] = b[{{n}}];
{{/n}}
  }
}
