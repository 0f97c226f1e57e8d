// conv_packed.wgsl: y[o,v] = act(bias[o] + sum over taps and c of w[o,c,tap] * x[c, v*stride + tap*dilation - pad]).
// x: quads of channels [planes][C/4][H*W] of vec4 (or one plain channel); y: quads [planes][O/4][H*W] of vec4.
// A dispatch covers some planes of the result, {{o}} quads of output channels, some planes of taps and some quads of
// input channels; where it is not the first over its window it goes on from the sum so far, where it is not the last
// it leaves the sum. Weights [tap][input lane][output quad] of vec4 are staged in workgroup memory, or read as they are
// where a device (a CPU) pays for barriers and not for reads.
// Quads that are not full are computed only as far as they hold channels (Acc0 …).
// One thread makes {{v}} voxels, {{wg}} apart, so that neighbouring lanes read neighbouring units.
{{>elementwise}}
{{head}}
{{#stats}}
{{>statistics}}
{{/stats}}
const kWidthIn = {{w_in}};
const kHeightIn = {{h_in}};
const kWidthOut = {{w_out}}u;
const kPlaneOut = {{plane_out}}u;
const kStrideIn = {{in_stride}};  // units from plane to plane
const kRow = {{row}}u;  // vec4 of weights for one tap
{{functions}}
{{#last}}
fn epilogue(x: vec4<f32>) -> vec4<f32> {
{{epilogue}}}
{{/last}}
{{main}}
  let group = group_index(wid, nwg);
  let first = group * {{group_voxels}}u + lane;
{{@i=v}}
  let j{{i}} = first + {{i}}u * {{wg}}u;
  let inside{{i}} = j{{i}} < P.voxels;
  let plane{{i}} = j{{i}} / kPlaneOut;
  let rest{{i}} = j{{i}} % kPlaneOut;
  let d{{i}} = i32(plane{{i}}) * {{stride_d}} + bitcast<i32>(P.origin_d);
  let h{{i}} = i32(rest{{i}} / kWidthOut) * {{stride_h}} - i32(P.pad_h);
  let w{{i}} = i32(rest{{i}} % kWidthOut) * {{stride_w}} - i32(P.pad_w);
  let at{{i}} = d{{i}} * kStrideIn + h{{i}} * kWidthIn + w{{i}};
{{@k=o}}
{{#first}}  var a{{i}}_{{k}} = cut{{k}}(weights[P.weights_shift + P.bias + {{k}}u]);
{{/first}}{{^first}}  var a{{i}}_{{k}} = cut{{k}}(resume({{k}}u, plane{{i}}, rest{{i}}));
{{/first}}{{/k}}{{/i}}
{{#staged}}
  for (var t0 = P.tap_begin; t0 < P.tap_end; t0 += P.stage_taps) {
    let t1 = min(t0 + P.stage_taps, P.tap_end);
    workgroupBarrier();
    for (var e = lane; e < (t1 - t0) * kRow; e += {{wg}}u) {
      stage[e] = weights[P.weights_shift + P.first_weight + (t0 + e / kRow) * P.weight_stride + e % kRow];
    }
    workgroupBarrier();
{{/staged}}{{^staged}}
  {
    let t0 = P.tap_begin;
    let t1 = P.tap_end;
{{/staged}}
    for (var t = t0; t < t1; t++) {
      let in_plane = t % P.taps_hw;
      let kd = t / P.taps_hw;
      let od = i32(kd * P.dilation_d);
      let oh = i32((in_plane / P.taps_w) * P.dilation_h);
      let ow = i32((in_plane % P.taps_w) * P.dilation_w);
      let shift = od * kStrideIn + oh * kWidthIn + ow;
{{@i=v}}
      let ok{{i}} = inside{{i}} && u32(d{{i}} + od) < {{planes_in}}u && u32(h{{i}} + oh) < u32(kHeightIn) &&
          u32(w{{i}} + ow) < u32(kWidthIn);
      let from{{i}} = u32(at{{i}} + shift);
{{/i}}
{{#staged}}
      var s = (t - t0) * kRow;
{{/staged}}{{^staged}}
      var s = P.weights_shift + P.first_weight + t * P.weight_stride;
{{/staged}}
{{#several}}      for (var q = 0u; q < P.quads; q++) {
{{/several}}{{^several}}      {
        let q = 0u;
{{/several}}
{{@i=v}}
        let x{{i}} = load(kd, d{{i}} + od, from{{i}} + q * {{plane_in}}u, ok{{i}});
{{/i}}{{@l=tail}}{{@k=o}}
        let w{{l}}_{{k}} = cut{{k}}({{#staged}}stage{{/staged}}{{^staged}}weights{{/staged}}[s + {{l}}u * {{o}}u + {{k}}u]);
{{@i=v}}
        a{{i}}_{{k}} = fma(Acc{{k}}(x{{i}}{{#vector}}[{{l}}]{{/vector}}), w{{l}}_{{k}}, a{{i}}_{{k}});
{{/i}}{{/k}}{{/l}}
{{#rest}}
        // The last quad of input channels is not full.
        if (q < P.full_quads) {
{{@l=rest}}{{@k=o}}
          let r{{l}}_{{k}} = cut{{k}}({{#staged}}stage{{/staged}}{{^staged}}weights{{/staged}}[s + ({{tail}}u + {{l}}u) * {{o}}u + {{k}}u]);
{{@i=v}}
          a{{i}}_{{k}} = fma(Acc{{k}}(x{{i}}[{{tail}} + {{l}}]), r{{l}}_{{k}}, a{{i}}_{{k}});
{{/i}}{{/k}}{{/l}}
        }
{{/rest}}
        s += {{lanes}}u * {{o}}u;
      }
    }
  }
{{#stats}}
{{@k=o}}
  let pivot{{k}} = shared_pivot(lane, grow{{k}}(a0_{{k}}));
  var sum{{k}} = vec4<f32>(0.0);
  var square{{k}} = vec4<f32>(0.0);
  var count{{k}} = 0.0;
{{@i=v}}
  if (inside{{i}}) {
    let e = grow{{k}}(a{{i}}_{{k}}) - pivot{{k}};
    sum{{k}} += e;
    square{{k}} += e * e;
    count{{k}} += 1.0;
  }
{{/i}}
  gather(lane, P.stats + ({{k}}u * P.parts + group) * 3u, group < P.groups, pivot{{k}}, sum{{k}}, square{{k}}, count{{k}});
{{/k}}
{{/stats}}
{{@i=v}}
  if (inside{{i}}) {
{{@k=o}}
{{#last}}    store({{k}}u, plane{{i}}, rest{{i}}, epilogue(grow{{k}}(a{{i}}_{{k}})));
{{/last}}{{^last}}    leave({{k}}u, plane{{i}}, rest{{i}}, grow{{k}}(a{{i}}_{{k}}));
{{/last}}{{/k}}  }
{{/i}}
}
