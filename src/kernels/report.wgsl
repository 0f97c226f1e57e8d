// report.wgsl: stops the run; the first report of a run stays, with two numbers of the reporter's choice.
fn report(detail: u32, other: u32) {
  loop {
    let word = atomicCompareExchangeWeak(&report_words[0], 0u, P.report);
    if (word.exchanged) {
      atomicStore(&report_words[1], detail);
      atomicStore(&report_words[2], other);
    }
    if (word.exchanged || word.old_value != 0u) {
      break;
    }
  }
}
{{#checks}}

// Floats on their way to memory, tested by their bits: compilers may assume that there are no infinities and NaNs, and
// what pack2x16float makes of numbers over 65504 is not defined.
fn checked1(x: f32) -> f32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) >= 0x7f800000u) {
    report(0u, 0u);
  }
  return x;
}

fn checked4(x: vec4<f32>) -> vec4<f32> {
  if (any((bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) >= vec4<u32>(0x7f800000u))) {
    report(0u, 0u);
  }
  return x;
}

fn checked_half1(x: f32) -> f32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) > 0x477fe000u) {
    report(0u, 0u);
  }
  return x;
}

fn checked_half4(x: vec4<f32>) -> vec4<f32> {
  if (any((bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x477fe000u))) {
    report(0u, 0u);
  }
  return x;
}
{{/checks}}
