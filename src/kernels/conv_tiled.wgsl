// conv_tiled.wgsl: y[o,v] = act(bias[o] + sum over taps and c of w[o,c,tap] * x[c, v*stride + tap*dilation - pad]), as a
// product of matrices: rows are voxels of all images, columns output channels, k goes over taps and input channels.
// x, y: quads of channels [image][planes][C/4][H*W] of vec4. A workgroup of {{across}} × {{down}} lanes makes {{tile_m}} voxels × {{tile_n}} channels,
// each lane {{rows}} × {{quads}} quads, from tiles of {{steps}} quads of k in workgroup memory: a_tile [lane's row][its rows][k/4], rows
// one unit apart from a power of two, since lanes beside each other write voxels beside each other; b_tile [k][o/4].
// The next tiles are read while the last are multiplied.
{{>elementwise}}
{{head}}
struct Rows {
  w: array<vec4<f32>, {{rows}} * {{steps}} + 1>,
}
struct Columns {
  w: array<vec4<f32>, {{across}} * {{quads}}>,
}
fn epilogue(x: vec4<f32>) -> vec4<f32> {
{{epilogue}}}

// The unit of the input at `at`, zero outside.
fn unit(at: i32, ok: bool) -> vec4<f32> {
  let raw = input[select(0u, u32(at) + P.input_shift, ok)];
  return select(vec4<f32>(0.0), {{unpack}}, ok);
}

// The weights of row k of the matrix, for quad n of output channels.
fn columns(k: u32, n: u32, ok: bool) -> vec4<f32> {
  return select(vec4<f32>(0.0), weights[select(0u, k * P.out_quads + n + P.weights_shift, ok)], ok);
}

fn store(voxel: u32, quad: u32, sum: vec4<f32>) {
  if (voxel < P.voxels && quad < P.out_quads) {
    var y = epilogue(sum + weights[P.bias + quad + P.weights_shift]);
{{#masked}}
    if (quad == P.out_quads - 1u) {
      y = select(vec4<f32>(0.0), y, {{mask}});
    }
{{/masked}}
    output[(voxel / P.plane_out * P.out_quads + quad) * P.plane_out + voxel % P.plane_out + P.output_shift] = {{store}};
  }
}

{{main}}
  let group = group_index(wid, nwg);
  let v0 = group / P.n_tiles * {{tile_m}}u;
  let n0 = group % P.n_tiles * {{tile_n}}u / 4u;
  let tx = lane % {{across}}u;
  let ty = lane / {{across}}u;
  // The voxel and the column that this lane fetches, the same all the way.
  let fetched = lane % {{tile_m}}u;
  let mine = v0 + fetched;
  let slab = mine / P.plane_out;
  let in_plane = mine % P.plane_out;
  let d = i32(slab % P.planes_out * P.stride_d) - i32(P.pad_d);
  let h = i32(in_plane / P.w_out * P.stride_h) - i32(P.pad_h);
  let w = i32(in_plane % P.w_out * P.stride_w) - i32(P.pad_w);
  let stride = P.in_quads * P.plane_in;
  let origin = (i32(slab / P.planes_out * P.planes_in) + d) * i32(stride) + h * i32(P.w_in) + w;
  let inside = group < P.groups && mine < P.voxels;
  let column = n0 + lane % ({{tile_n}}u / 4u);
{{@r=rows}}{{@j=quads}}
  var y{{r}}_{{j}} = vec4<f32>(0.0);
{{/j}}{{/r}}
{{@i=a_loads}}
  var next_a{{i}} = vec4<f32>(0.0);
{{/i}}{{@i=b_loads}}
  var next_b{{i}} = vec4<f32>(0.0);
{{/i}}
  // Step `at` multiplies what the step before has read.
  for (var at = 0u; at <= P.tiles; at++) {
    if (at > 0u) {
      workgroupBarrier();
{{@i=a_loads}}
      a_tile[fetched % {{down}}u].w[fetched / {{down}}u * {{steps}}u + lane / {{tile_m}}u + {{i}}u * {{a_deep}}u] = next_a{{i}};
{{/i}}{{@i=b_loads}}
      b_tile[lane / ({{tile_n}}u / 4u) + {{i}}u * {{b_deep}}u].w[lane % ({{tile_n}}u / 4u)] = next_b{{i}};
{{/i}}
      workgroupBarrier();
    }
    if (at < P.tiles) {
      let tap = at / P.chunks;
      let q0 = at % P.chunks * {{steps}}u;
      let od = i32(tap / P.taps_hw * P.dilation_d);
      let oh = i32(tap % P.taps_hw / P.taps_w * P.dilation_h);
      let ow = i32(tap % P.taps_w * P.dilation_w);
      let ok = inside && u32(d + od) < P.planes_in && u32(h + oh) < P.h_in && u32(w + ow) < P.w_in;
      let from_tap = origin + od * i32(stride) + oh * i32(P.w_in) + ow;
{{@i=a_loads}}
      let quad{{i}} = q0 + lane / {{tile_m}}u + {{i}}u * {{a_deep}}u;
      next_a{{i}} = unit(from_tap + i32(quad{{i}} * P.plane_in), ok && quad{{i}} < P.in_quads);
{{/i}}{{@i=b_loads}}
      let c{{i}} = q0 * 4u + lane / ({{tile_n}}u / 4u) + {{i}}u * {{b_deep}}u;
      next_b{{i}} = columns(tap * P.in_quads * 4u + c{{i}}, column, c{{i}} < P.in_quads * 4u && column < P.out_quads);
{{/i}}
    }
    if (at > 0u) {
{{@s=steps}}
      {
{{@r=rows}}
        let a{{r}} = a_tile[ty].w[{{r}} * {{steps}} + {{s}}];
{{/r}}
{{@c=4}}{{@j=quads}}
        let b{{c}}_{{j}} = b_tile[{{s}} * 4 + {{c}}].w[tx + {{j}}u * {{across}}u];
{{@r=rows}}
        y{{r}}_{{j}} = fma(vec4<f32>(a{{r}}[{{c}}]), b{{c}}_{{j}}, y{{r}}_{{j}});
{{/r}}{{/j}}{{/c}}
      }
{{/s}}
    }
  }
  if (group < P.groups) {
{{@r=rows}}{{@j=quads}}
    store(v0 + ty + {{r}}u * {{down}}u, n0 + tx + {{j}}u * {{across}}u, y{{r}}_{{j}});
{{/j}}{{/r}}
  }
}
