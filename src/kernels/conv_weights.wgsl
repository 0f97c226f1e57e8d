// conv_weights.wgsl: sums[part, item, t, j] (+)= Σ over rows of the part, over v, of
//   g[quad o, row, v][j] · x[quad i, row', v · stride + t · dilation - pad]
// An item is a tap of the slower axes, which gives row', a quad o of results and a quad i of inputs. A lane has one item
// and one part, takes rows in turn with those of the other parts, and keeps all taps t of the row in registers: no
// barrier, which a software driver would compile for half a minute. A workgroup has P.block items of P.slots parts.
{{head}}
fn g_at(unit: u32) -> vec4<f32> {
  let raw = g[unit + P.g_shift];
  return {{unpack_g}};
}

// Voxel `at` of a row of x, zero outside.
fn x_at(row: u32, at: i32) -> vec4<f32> {
  let raw = x[row + u32(clamp(at, 0, i32(P.in_w) - 1)) + P.x_shift];
  return select(vec4<f32>(0.0), {{unpack_x}}, at >= 0 && at < i32(P.in_w));
}

{{main}}
  let group = group_index(wid, nwg);
  let slot = lane / P.block;
  let part = group / P.blocks * P.slots + slot;
  let item = P.first_item + group % P.blocks * P.block + lane % P.block;
  let inside = group < P.groups && slot < P.slots && part < P.parts && item < P.end_item;
  let i_quad = item % P.in_quads;
  let o_quad = item / P.in_quads % P.out_quads;
  let tap = item / (P.in_quads * P.out_quads);
  let to_z = i32(tap / P.kernel_y * P.dilation_z) - i32(P.pad_z);
  let to_y = i32(tap % P.kernel_y * P.dilation_y) - i32(P.pad_y);
  var acc: array<vec4<f32>, {{taps}} * 4>;
  let bound = inside && o_quad >= P.o_begin && o_quad < P.o_end && i_quad >= P.i_begin && i_quad < P.i_end;
  var row = select(P.rows, part, bound);
  for (; row < P.rows; row += P.parts) {
    let slab = P.g_slab + row / P.out_h;
    let image = slab / P.out_d;
    let z = i32(slab % P.out_d * P.stride_z) + to_z;
    let y = i32(row % P.out_h * P.stride_y) + to_y;
    let x_slab = image * P.in_d + u32(max(z, 0));
    if (z < 0 || z >= i32(P.in_d) || y < 0 || y >= i32(P.in_h) || x_slab < P.x_begin || x_slab >= P.x_end) {
      continue;
    }
    let g_row = slab * P.g_slab_units + o_quad * P.g_plane_units + row % P.out_h * P.out_w;
    let x_row = x_slab * P.x_slab_units + i_quad * P.x_plane_units + u32(y) * P.in_w;
    var w: array<vec4<f32>, {{taps}}>;
{{#slides}}
    // Voxels a dilation apart share all taps but one.
    for (var first = 0u; first < min(P.dilation_x, P.out_w); first++) {
{{@t=before}}
      w[{{t}}] = x_at(x_row, i32(first) - i32(P.pad_x) + i32({{t}}u * P.dilation_x));
{{/t}}
      for (var v = first; v < P.out_w; v += P.dilation_x) {
        w[{{before}}] = x_at(x_row, i32(v) - i32(P.pad_x) + i32({{before}}u * P.dilation_x));
{{/slides}}
{{^slides}}
    {
      for (var v = 0u; v < P.out_w; v++) {
{{@t=taps}}
        w[{{t}}] = x_at(x_row, i32(v * P.stride_x) - i32(P.pad_x) + i32({{t}}u * P.dilation_x));
{{/t}}
{{/slides}}
        let slope = g_at(g_row + v);
{{@t=taps}}
        acc[{{t}} * 4] += slope.x * w[{{t}}];
        acc[{{t}} * 4 + 1] += slope.y * w[{{t}}];
        acc[{{t}} * 4 + 2] += slope.z * w[{{t}}];
        acc[{{t}} * 4 + 3] += slope.w * w[{{t}}];
{{/t}}
{{#slides}}
{{@t=before}}
        w[{{t}}] = w[{{t}} + 1];
{{/t}}
{{/slides}}
      }
    }
  }
  if (!inside) {
    return;
  }
  let at = (part * (P.end_item - P.first_item) + item - P.first_item) * {{taps}}u * 4u;
{{@a=sums}}
  sums[at + {{a}}u] = acc[{{a}}] + select(vec4<f32>(0.0), sums[at + {{a}}u], P.goes_on != 0u);
{{/a}}
}
