// elementwise.wgsl: the functions that the WGSL expressions of elementwise ops call; {{T}} is f32 or vec4<f32>.
// They hold for finite arguments of any size up to 1e4 and beyond: no inf/inf, no inf*0. The polynomials are minimax
// fits of relative error. The errors stated are of f32 arithmetic with a correctly rounded exp; a device's exp adds
// its own, some 2 + 2|x| units in the last place.

// Not max(x, 0): a NaN passes and is found later.
fn act_relu(x: {{T}}) -> {{T}} {
  return select(x, {{T}}(0.0), x < {{T}}(0.0));
}

fn act_leaky_relu(x: {{T}}, alpha: f32) -> {{T}} {
  return select(x, x * alpha, x < {{T}}(0.0));
}

// exp(x) - 1 for x <= 0.5; relative error below 2e-7. Near 0 a polynomial, since exp(x) - 1 would cancel.
fn act_expm1(x: {{T}}) -> {{T}} {
  let p = ((((1.98756243e-4 * x + 1.3981997e-3) * x + 8.33345205e-3) * x + 4.16657962e-2) * x + 0.166666657) * x + 0.5;
  return select(exp(x) - 1.0, x + x * x * p, abs(x) < {{T}}(0.5));
}

fn act_elu(x: {{T}}, alpha: f32) -> {{T}} {
  return select(x, alpha * act_expm1(min(x, {{T}}(0.0))), x < {{T}}(0.0));
}

// Relative error below 2e-7.
fn act_sigmoid(x: {{T}}) -> {{T}} {
  let e = exp(-abs(x));
  return select({{T}}(1.0), e, x < {{T}}(0.0)) / (1.0 + e);
}

fn act_silu(x: {{T}}) -> {{T}} {
  return x * act_sigmoid(x);
}

// Relative error below 2e-7. WGSL's own tanh may be wrong by 1e-5 and overflows on some devices.
fn act_tanh(x: {{T}}) -> {{T}} {
  let u = min(x * x, {{T}}(1.0));
  let p = (((-6.09692745e-3 * u + 2.09973454e-2) * u - 5.38509488e-2) * u + 0.133327708) * u - 0.333333284;
  let tail = 1.0 - 2.0 / (exp(2.0 * min(abs(x), {{T}}(10.0))) + 1.0);
  return select(sign(x) * tail, x + x * u * p, abs(x) < {{T}}(0.625));
}

// log(1 + exp(x)) = max(x, 0) + log(1 + e), e = exp(-|x|), and log(1 + e) = 2 atanh(e / (2 + e)). Relative error below
// 3e-7.
fn act_softplus(x: {{T}}) -> {{T}} {
  let e = exp(-abs(x));
  let s = e / (2.0 + e);
  let u = s * s;
  let p = ((0.134304419 * u + 0.141175359) * u + 0.20003812) * u + 0.333333194;
  return max(x, {{T}}(0.0)) + 2.0 * (s + s * u * p);
}

// The normal distribution function. |x| < 1: 1/2 + x P(x^2). Else the upper tail Q(|x|) = exp(-x^2/2) t P(t) with
// t = 1 / (1 + 0.32 |x|), which keeps its relative accuracy however small it is. The fits are good to 2e-8; in f32 the
// absolute error is below 8e-8, the relative error of the left tail below 1e-6 to x = -5 and 5e-6 to x = -13, where it
// leaves the range of f32.
fn act_normal_cdf(x: {{T}}) -> {{T}} {
  let z = abs(x);
  let u = min(x * x, {{T}}(1.0));
  let centre = ((((-7.65420828e-6 * u + 1.13486371e-4) * u - 1.18632999e-3) * u + 9.97332297e-3) * u - 6.64903596e-2) * u
             + 0.398942292;
  let t = 1.0 / (1.0 + 0.32 * z);
  let p = ((((((4.04092446e-2 * t - 0.143006921) * t + 0.135420009) * t - 6.31917641e-3) * t + 0.106593966) * t
             + 0.111269534) * t + 0.127996281) * t + 0.127647251;
  let q = exp(-0.5 * z * z) * (t * p);
  return select(select(1.0 - q, q, x < {{T}}(0.0)), 0.5 + x * centre, z < {{T}}(1.0));
}

fn act_gelu_none(x: {{T}}) -> {{T}} {
  return x * act_normal_cdf(x);
}

// 0.5 x (1 + tanh(v)) = x sigmoid(2v).
fn act_gelu_tanh(x: {{T}}) -> {{T}} {
  return x * act_sigmoid(1.5957691216 * (x + 0.044715 * x * x * x));
}

// x^y as in C: WGSL's pow is undefined below 0. A negative x takes whole exponents, anything else gives NaN.
fn act_pow(x: {{T}}, y: {{T}}) -> {{T}} {
  // Variables, because WGSL refuses constant expressions that are NaN or infinite.
  var nan_bits = 0x7fc00000u;
  var infinity_bits = 0x7f800000u;
  let magnitude = select(exp2(y * log2(abs(x))), x * x, y == {{T}}(2.0));
  let whole = floor(y) == y;
  let odd = whole & (floor(0.5 * y) != 0.5 * y);
  let below = select(select({{T}}(bitcast<f32>(nan_bits)), magnitude, whole), -magnitude, odd);
  let zero = select({{T}}(bitcast<f32>(infinity_bits)), {{T}}(0.0), y > {{T}}(0.0));
  let value = select(select(magnitude, below, x < {{T}}(0.0)), zero, x == {{T}}(0.0));
  return select(value, {{T}}(1.0), y == {{T}}(0.0));
}
