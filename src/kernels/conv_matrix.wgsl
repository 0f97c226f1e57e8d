// conv_matrix.wgsl: y[o,v] = act(bias[o] + sum over taps and c of w[o,c,tap] * x[c,v + tap*dilation - pad]) by matrix
// units: halves are multiplied, sums are f32.
// x: quads of halves [planes][C/4][H*W]; y: quads [planes][O/4][H*W]. Parts as in conv_packed.wgsl.
//
// A workgroup makes {{rows_out}} rows of {{tile_w}} voxels along W at a time, up to {{blocks_each}} times; the rows follow one
// another in a residue class of the dilation along H, so that taps along H share what is read. For every plane of taps
// the rows that they need are staged in workgroup memory, zeros where the volume ends: [row][column][{{octs}} eights of
// channels]. What comes next is read while the last is multiplied. A subgroup multiplies {{m}} voxels of every row by the
// weights of {{tiles_n}} matrices of {{n}} output channels. The sums go out through workgroup memory, where lanes find
// quads of channels.
// Weights: matrices of {{n}} outputs × {{k}} inputs as halves, [tap][input matrix][output matrix], then the biases [quad].
{{enable_matrices}}
{{>elementwise}}
{{head}}
const kWidth = {{w_in}};
const kHeight = {{h_in}};
const kWidthOut = {{w_out}}u;
const kHeightOut = {{h_out}}u;
const kPlaneIn = {{h_in}}u * {{w_in}}u;
const kStrideIn = {{in_stride}};  // units from plane to plane
const kColumns = {{columns}}u;
const kStaged = {{staged_voxels}}u;
const kSums = {{quads_n}}u + 1u;  // vec4 from voxel to voxel; one more than there are keeps lanes off each other's banks
{{functions}}
{{#last}}
fn epilogue(x: vec4<f32>) -> vec4<f32> {
{{epilogue}}}
{{/last}}
{{main}}
  let folded = group_index(wid, nwg);
  // The same for the whole group.
  if (folded >= P.groups) {
    return;
  }
  let group = folded / {{out_groups}}u;
  let og = folded % {{out_groups}}u;
  let plane = group / P.plane_groups;
  let first_block = group % P.plane_groups % {{block_groups}}u * {{blocks_each}}u;
  let run = group % P.plane_groups / {{block_groups}}u;
  // Long classes of the dilation have a row more than the others.
  let is_long = run < {{long_runs}}u;
  let of_class = select(run - {{long_runs}}u, run, is_long);
  let each = select({{short_each}}u, {{long_each}}u, is_long);
  let first_row = of_class / each + select({{long_classes}}u, 0u, is_long) + of_class % each * {{rows_out}}u * {{dilation_h}}u;
  let d_in = i32(plane) * {{stride_d}} + bitcast<i32>(P.origin_d);
  // A lane takes every {{shares}}th of the quads of a voxel.
  let voxel = place % {{m}}u;
  let share = place / {{m}}u;
{{@q=lane_quads}}
  let quad{{q}} = og * {{quads_n}}u + share + {{q}}u * {{shares}}u;
{{#first}}
  let bias{{q}} = bitcast<vec4<f32>>(weights[P.weights_shift + P.bias + min(quad{{q}}, P.out_quads - 1u)]);
{{/first}}
{{#stats}}
  var pivot{{q}} = vec4<f32>(0.0);
  var total{{q}} = vec4<f32>(0.0);
  var square{{q}} = vec4<f32>(0.0);
{{/stats}}
{{/q}}
  for (var block = first_block; block < min(first_block + {{blocks_each}}u, {{blocks}}u); block++) {
    let first_column = block * {{tile_w}}u;
{{@i=stage_steps}}
    let e{{i}} = lane + {{i}}u * {{wg}}u;
    let h{{i}} = i32(first_row + e{{i}} / kColumns * {{dilation_h}}u) - {{pad_h}};
    let w{{i}} = i32(first_column + e{{i}} % kColumns) - {{pad_w}};
    let ok{{i}} = e{{i}} < kStaged && u32(h{{i}}) < u32(kHeight) && u32(w{{i}}) < u32(kWidth);
{{@o=octs}}
    var v{{i}}_{{o}} = vec4<u32>(0u);
{{/o}}{{/i}}
{{@j=rows_out}}{{@c=tiles_n}}
    var sum{{j}}_{{c}} = subgroup_matrix_result<f32, {{n}}, {{m}}>();
{{/c}}{{/j}}
{{#taps_apart}}{{@b=inputs}}
    {
      let kd = P.in{{b}}_tap;
      let d = d_in + i32(kd * {{dilation_d}}u);
      // The same for the whole group.
      if (u32(d) - P.in{{b}}_begin < P.in{{b}}_planes) {
        for (var part = 0u; part < {{parts_of_k}}u; part++) {
{{>conv_matrix_load}}
{{>conv_matrix_stage}}
{{products}}        }
      }
    }
{{/b}}{{/taps_apart}}{{^taps_apart}}
    {
      let d = d_in + i32({{tap_begin}}u * {{dilation_d}}u);
      let part = 0u;
      if (u32(d) < {{planes_in}}u) {
{{>conv_matrix_load b=0}}
      }
    }
    for (var step = 0u; step < {{taps_d}}u * {{parts_of_k}}u; step++) {
      let kd = {{tap_begin}}u + step / {{parts_of_k}}u;
      let part = step % {{parts_of_k}}u;
      let ours = u32(d_in + i32(kd * {{dilation_d}}u)) < {{planes_in}}u;
      if (ours) {
{{>conv_matrix_stage}}
      }
      {
        let next = step + 1u;
        let d = d_in + i32(({{tap_begin}}u + next / {{parts_of_k}}u) * {{dilation_d}}u);
        let part = next % {{parts_of_k}}u;
        if (next < {{taps_d}}u * {{parts_of_k}}u && u32(d) < {{planes_in}}u) {
{{>conv_matrix_load b=0}}
        }
      }
      if (ours) {
{{products}}      }
    }
{{/taps_apart}}
    let w = first_column + subgroup * {{m}}u + voxel;
{{@j=rows_out}}
    workgroupBarrier();
{{@c=tiles_n}}
    subgroupMatrixStore<row_major>(&sums, subgroup * {{m}}u * kSums + {{c}}u * {{n}}u / 4u, sum{{j}}_{{c}}, kSums);
{{/c}}
    workgroupBarrier();
    {
      let h = first_row + {{j}}u * {{dilation_h}}u;
      let inside = w < kWidthOut && h < kHeightOut;
      let at = (subgroup * {{m}}u + voxel) * kSums + share;
{{@q=lane_quads}}
{{#stats}}
      if ({{j}}u == 0u && block == first_block) {
        // The first voxel of the group.
        pivot{{q}} = sums[share + {{q}}u * {{shares}}u] + {{#first}}bias{{q}}{{/first}}{{^first}}resume(min(quad{{q}}, P.out_quads - 1u), plane, first_row * kWidthOut + first_column){{/first}};
      }
{{/stats}}
      if (inside && quad{{q}} < P.out_quads) {
        let y = sums[at + {{q}}u * {{shares}}u] + {{#first}}bias{{q}}{{/first}}{{^first}}resume(quad{{q}}, plane, h * kWidthOut + w){{/first}};
{{#stats}}
        let e = y - pivot{{q}};
        total{{q}} += e;
        square{{q}} += e * e;
{{/stats}}
{{#last}}
        store(quad{{q}}, plane, h * kWidthOut + w, epilogue(y));
{{/last}}{{^last}}
        leave(quad{{q}}, plane, h * kWidthOut + w, y);
{{/last}}
      }
{{/q}}
    }
{{/j}}
  }
{{#stats}}
  // Rows [quad][sum, squares] of what the lanes of a voxel have; the first lanes add them up.
  const kVoxels = {{tile_w}}u;
  let own = subgroup * {{m}}u + voxel;
  workgroupBarrier();
{{@q=lane_quads}}
  stage[(share + {{q}}u * {{shares}}u) * 2u * kVoxels + own] = bitcast<vec4<u32>>(total{{q}});
  stage[((share + {{q}}u * {{shares}}u) * 2u + 1u) * kVoxels + own] = bitcast<vec4<u32>>(square{{q}});
{{/q}}
  workgroupBarrier();
  for (var half = kVoxels / 2u; half >= {{voxels_left}}u; half /= 2u) {
    for (var e = lane; e < {{quads_n}}u * 2u * half; e += {{wg}}u) {
      let at = e / half * kVoxels + e % half;
      stage[at] = bitcast<vec4<u32>>(bitcast<vec4<f32>>(stage[at]) + bitcast<vec4<f32>>(stage[at + half]));
    }
    workgroupBarrier();
  }
  if (lane < {{m}}u * {{shares}}u && subgroup == 0u && voxel == 0u) {
    let rows = min({{rows_out}}u, (kHeightOut - first_row + {{dilation_h}}u - 1u) / {{dilation_h}}u);
    let first_column = first_block * {{tile_w}}u;
    let count = f32(rows * min({{blocks_each}}u * {{tile_w}}u, kWidthOut - first_column));
{{@q=lane_quads}}
    if (quad{{q}} < P.out_quads) {
      let at = (share + {{q}}u * {{shares}}u) * 2u * kVoxels;
      var all = vec4<f32>(0.0);
      var squares = vec4<f32>(0.0);
      for (var v = 0u; v < {{voxels_left}}u; v++) {
        all += bitcast<vec4<f32>>(stage[at + v]);
        squares += bitcast<vec4<f32>>(stage[at + kVoxels + v]);
      }
      let mean = all / count;
      let row = P.stats + (quad{{q}} * P.parts + group) * 3u;
      stats[row] = pivot{{q}} + mean;
      stats[row + 1u] = max(squares - all * mean, vec4<f32>(0.0));
      stats[row + 2u] = vec4<f32>(count);
    }
{{/q}}
  }
{{/stats}}
}
