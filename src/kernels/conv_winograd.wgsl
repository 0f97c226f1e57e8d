// conv_winograd.wgsl: a convolution with three taps along H by Winograd's F(4,3) along that axis: four outputs from six
// products instead of twelve. Layouts and parts as in conv_packed.wgsl.
//
// A dilation splits H into residue classes; a thread makes {{tiles}} runs of four voxels that follow one another in a
// class, for {{o}} quads of output channels. With the rows of the input v0 … v5 of a run (Lavin and Gray, "Fast
// algorithms for convolutional neural networks"; the points are 0, ±1, ±2 and infinity):
//   t = Bᵀv, m[p] = sum over the other taps and the input channels of t[p] * (G g)[p], y = Aᵀm.
// Quads that are not full are computed only as far as they hold channels (Acc0 …).
// Weights G g come as rows [kd][kw][input quad][output group] of 6 × 4 × {{o}} vec4 and are staged in workgroup memory;
// where it pays those of the last point are uniforms, which NVIDIA reads by a way of its own.
{{>elementwise}}
{{head}}
struct Row {
  w: array<vec4<f32>, {{staged}}>,
}
{{#uniform}}
struct LastPoint {
  w: array<vec4<f32>, {{last_lanes}}>,
}
{{/uniform}}
{{#stats}}
{{>statistics}}
{{/stats}}
const kWidthIn = {{w_in}};
const kHeightIn = {{h_in}};
const kWidthOut = {{w_out}}u;
const kHeightOut = {{h_out}}u;
const kPlaneIn = {{h_in}}u * {{w_in}}u;
const kStrideIn = {{in_stride}};  // units from plane to plane
const kGroups = {{out_groups}}u;
const kDilation = {{dilation_h}};  // along H; a constant, so that rows are constant distances apart
const kRowOut = {{dilation_h}}u * {{w_out}}u;
const kRowStep = {{dilation_h}}u * {{w_in}}u;
{{functions}}
{{#last}}
fn epilogue(x: vec4<f32>) -> vec4<f32> {
{{epilogue}}}
{{/last}}
{{main}}
  let folded = group_index(wid, nwg);
  let group = folded / kGroups;
  let og = folded % kGroups;
  let plane = group / P.plane_groups;
{{#block}}
  let in_plane = group % P.plane_groups;
  let w = in_plane % {{blocks}}u * {{block}}u + lane % {{block}}u;
  let run = in_plane / {{blocks}}u * ({{wg}}u / {{block}}u) + lane / {{block}}u;
{{/block}}{{^block}}
  let place = (group % P.plane_groups) * {{wg}}u + lane;
  let w = place % kWidthOut;
  let run = place / kWidthOut;
{{/block}}
  let h = run % u32(kDilation) + run / u32(kDilation) * u32(kDilation) * {{voxels}}u;
  let ours = folded < P.groups && run < P.runs;  // folding may add groups at the end, which make nothing
  let d_in = i32(plane) * {{stride_d}} + bitcast<i32>(P.origin_d);
  let h_in = i32(h) - {{pad_h}};
  let first_row_ok = ours && u32(h_in) < u32(kHeightIn);
  let last_row_ok = ours && u32(h_in + ({{voxels}} + 1) * kDilation) < u32(kHeightIn);
{{^exact}}{{@r=voxels}}
  let row_ok{{r}} = ours && u32(h_in + ({{r}} + 1) * kDilation) < u32(kHeightIn);
{{/r}}{{/exact}}
{{@t=tiles}}{{@k=o}}{{@p=6}}
  var m{{t}}_{{p}}_{{k}} = Acc{{k}}(0.0);
{{/p}}{{/k}}{{/t}}
{{@b=inputs}}
{{#taps_apart}}
  {
    let kd = P.in{{b}}_tap;
{{/taps_apart}}{{^taps_apart}}
  for (var kd = {{tap_begin}}u; kd < {{tap_end}}u; kd++) {
{{/taps_apart}}
    let d = d_in + i32(kd * {{dilation_d}}u);
    // The same for the whole group.
    if ({{#taps_apart}}u32(d) - P.in{{b}}_begin < P.in{{b}}_planes{{/taps_apart}}{{^taps_apart}}u32(d) < {{planes_in}}u{{/taps_apart}}) {
{{#stage_all}}
    workgroupBarrier();
    for (var e = lane; e < {{taps_w}}u * {{quads}}u * {{staged}}u; e += {{wg}}u) {
      let at = e / {{staged}}u;
      let row = ((kd * {{taps_w}}u + at / {{quads}}u) * P.all_quads + P.first_quad + at % {{quads}}u) * kGroups + og;
      stage[at].w[e % {{staged}}u] = weights[P.weights_shift + row * {{row}}u + e % {{staged}}u];
    }
    workgroupBarrier();
{{/stage_all}}
    for (var kw = 0u; kw < {{taps_w}}u; kw++) {
      let w_in = i32(w + kw * {{dilation_w}}u) - {{pad_w}};
      let w_ok = u32(w_in) < u32(kWidthIn);
      let first_ok = w_ok && first_row_ok;
      let last_ok = w_ok && last_row_ok;
{{^exact}}{{@r=voxels}}
      let ok{{r}} = w_ok && row_ok{{r}};
{{/r}}{{/exact}}
      let base = d * kStrideIn + h_in * kWidthIn + w_in;
{{#one_stage}}
      {
        const q0 = 0u;
        const q1 = {{quads}}u;
{{/one_stage}}{{^one_stage}}
      for (var q0 = 0u; q0 < {{quads}}u; q0 += {{stage_rows}}u) {
        let q1 = min(q0 + {{stage_rows}}u, {{quads}}u);
{{/one_stage}}
        let first_row = ((kd * {{taps_w}}u + kw) * P.all_quads + P.first_quad + q0) * kGroups + og;
{{#stage_all}}
        let first_staged = kw * {{quads}}u;
{{/stage_all}}{{^stage_all}}
        const first_staged = 0u;
        workgroupBarrier();
        for (var e = lane; e < (q1 - q0) * {{staged}}u; e += {{wg}}u) {
          let row = first_row + e / {{staged}}u * kGroups;
          stage[e / {{staged}}u].w[e % {{staged}}u] = weights[P.weights_shift + row * {{row}}u + e % {{staged}}u];
        }
        workgroupBarrier();
{{/stage_all}}
{{#exact}}
        if (ours && w_ok) {  // then all rows but the first and the last are there
{{/exact}}
        for (var q = q0; q < min(q1, {{full_quads}}u); q++) {
{{>conv_winograd_points}}
{{>conv_winograd_products lanes=4}}
        }
{{#tail}}
        // The last quad of input channels is not full.
        if (q1 == {{quads}}u) {
          const q = {{quads}}u - 1u;
{{>conv_winograd_points}}
{{>conv_winograd_products lanes=tail}}
        }
{{/tail}}
{{#exact}}
        }
{{/exact}}
      }
    }
    }
  }
{{/b}}
  let first_voxel = h * kWidthOut + w;
{{@k=o}}
  {
    let quad = og * {{o}}u + {{k}}u;
{{#first}}
    let start = weights[P.weights_shift + P.bias + quad];
{{/first}}
{{@t=tiles}}
{{#first}}
    var y{{t}}_0 = start;
    var y{{t}}_1 = start;
    var y{{t}}_2 = start;
    var y{{t}}_3 = start;
{{/first}}{{^first}}
    var y{{t}}_0 = resume(quad, plane, first_voxel + (4u * {{t}}u) * kRowOut);
    var y{{t}}_1 = resume(quad, plane, first_voxel + (4u * {{t}}u + 1u) * kRowOut);
    var y{{t}}_2 = resume(quad, plane, first_voxel + (4u * {{t}}u + 2u) * kRowOut);
    var y{{t}}_3 = resume(quad, plane, first_voxel + (4u * {{t}}u + 3u) * kRowOut);
{{/first}}
    let s{{t}} = m{{t}}_1_{{k}} + m{{t}}_2_{{k}};
    let r{{t}} = m{{t}}_1_{{k}} - m{{t}}_2_{{k}};
    let u{{t}} = m{{t}}_3_{{k}} + m{{t}}_4_{{k}};
    let x{{t}} = m{{t}}_3_{{k}} - m{{t}}_4_{{k}};
    y{{t}}_0 += grow{{k}}(m{{t}}_0_{{k}} + s{{t}} + u{{t}});
    y{{t}}_1 += grow{{k}}(fma(Acc{{k}}(2.0), x{{t}}, r{{t}}));
    y{{t}}_2 += grow{{k}}(fma(Acc{{k}}(4.0), u{{t}}, s{{t}}));
    y{{t}}_3 += grow{{k}}(fma(Acc{{k}}(8.0), x{{t}}, r{{t}}) + m{{t}}_5_{{k}});
{{@j=4}}
    let inside{{t}}_{{j}} = ours && h + (4u * {{t}}u + {{j}}u) * u32(kDilation) < kHeightOut;
{{/j}}{{/t}}
{{#stats}}
    let pivot = shared_pivot(lane, y0_0);
    var sum = vec4<f32>(0.0);
    var square = vec4<f32>(0.0);
    var count = 0.0;
{{@t=tiles}}{{@j=4}}
    if (inside{{t}}_{{j}}) {
      let e = y{{t}}_{{j}} - pivot;
      sum += e;
      square += e * e;
      count += 1.0;
    }
{{/j}}{{/t}}
    gather(lane, P.stats + (quad * P.parts + group) * 3u, folded < P.groups && quad < P.out_quads, pivot, sum, square, count);
{{/stats}}
    if (quad < P.out_quads) {
{{@t=tiles}}{{@j=4}}
      if (inside{{t}}_{{j}}) {
{{#last}}        store(quad, plane, first_voxel + (4u * {{t}}u + {{j}}u) * kRowOut, epilogue(y{{t}}_{{j}}));
{{/last}}{{^last}}        leave(quad, plane, first_voxel + (4u * {{t}}u + {{j}}u) * kRowOut, y{{t}}_{{j}});
{{/last}}      }
{{/j}}{{/t}}
    }
  }
{{/k}}
}
