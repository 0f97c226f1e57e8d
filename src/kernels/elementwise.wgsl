// elementwise.wgsl: the functions that the WGSL expressions of elementwise ops call; {{T}} is f32 or vec4<f32>.
// They hold for finite arguments of any size up to 1e4 and beyond: no inf/inf, no inf*0. The polynomials are minimax
// fits of relative error. The errors stated are of f32 arithmetic with a correctly rounded exp; a device's exp adds
// its own, some 2 + 2|x| units in the last place. Functions call only those above them.

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

// log(1 + x) = 2 atanh(x / (2 + x)) where x is small; relative error below 3e-7.
fn act_log1p(x: {{T}}) -> {{T}} {
  let s = x / (2.0 + x);
  let u = s * s;
  let p = ((0.134304419 * u + 0.141175359) * u + 0.20003812) * u + 0.333333194;
  return select(log(1.0 + x), 2.0 * (s + s * u * p), (x > {{T}}(-0.5)) & (x < {{T}}(1.0)));
}

// |x| < 1: x P(x^2); else by the tail of the normal distribution. Absolute error below 2e-7.
fn act_erf(x: {{T}}) -> {{T}} {
  let u = min(x * x, {{T}}(1.0));
  let centre = (((((7.85386135e-5 * u - 8.01019363e-4) * u + 5.18832769e-3) * u - 2.68538119e-2) * u + 0.112835851) * u
             - 0.376126258) * u + 1.12837917;
  let tail = sign(x) * (1.0 - 2.0 * act_normal_cdf(-1.41421356 * abs(x)));
  return select(tail, x * centre, abs(x) < {{T}}(1.0));
}

fn act_mish(x: {{T}}) -> {{T}} {
  let e = exp(-abs(x));
  let above = (1.0 + 2.0 * e) / (1.0 + 2.0 * e + 2.0 * e * e);
  let below = e * (e + 2.0) / (e * (e + 2.0) + 2.0);
  return x * select(above, below, x < {{T}}(0.0));
}

// WGSL's own functions of angles may be wrong by 5e-4. Here the quarter turns are taken off in three parts (good to
// |x| = 8000), the rest goes through minimax polynomials; absolute error below 2e-7.
fn act_sine_part(r: {{T}}) -> {{T}} {
  let z = r * r;
  return r + r * z * ((-1.95152959e-4 * z + 8.33216087e-3) * z - 0.166666546);
}

fn act_cosine_part(r: {{T}}) -> {{T}} {
  let z = r * r;
  return 1.0 - 0.5 * z + z * z * ((2.44331571e-5 * z - 1.38873163e-3) * z + 4.16666457e-2);
}

// sin(x + quarter turns).
fn act_turned(x: {{T}}, turns: f32) -> {{T}} {
  let n = round(x * 0.636619772);
  let r = ((x - n * 1.5703125) - n * 4.83751297e-4) - n * 7.54978995e-8;
  let q = n + turns - 4.0 * floor((n + turns) * 0.25);
  let odd = (q == {{T}}(1.0)) | (q == {{T}}(3.0));
  let value = select(act_sine_part(r), act_cosine_part(r), odd);
  return select(value, -value, q > {{T}}(1.5));
}

fn act_sin(x: {{T}}) -> {{T}} {
  return act_turned(x, 0.0);
}

fn act_cos(x: {{T}}) -> {{T}} {
  return act_turned(x, 1.0);
}

// From 0 on: tan(pi/8) and tan(3 pi/8) divide the range. Relative error below 2e-7.
fn act_atan_part(z: {{T}}) -> {{T}} {
  let large = z > {{T}}(2.41421356);
  let middle = z > {{T}}(0.414213562);
  let t = select(select(z, (z - 1.0) / (z + 1.0), middle), -1.0 / z, large);
  let u = t * t;
  let p = ((8.05374450e-2 * u - 0.138776856) * u + 0.199777106) * u - 0.333329492;
  return select(select({{T}}(0.0), {{T}}(0.785398163), middle), {{T}}(1.57079633), large) + (t + t * u * p);
}

fn act_atan(x: {{T}}) -> {{T}} {
  return sign(x) * act_atan_part(abs(x));
}

fn act_atan2(y: {{T}}, x: {{T}}) -> {{T}} {
  let a = abs(x);
  let b = abs(y);
  let big = max(a, b);
  let ratio = select(min(a, b) / big, {{T}}(0.0), big == {{T}}(0.0));
  let first = act_atan_part(ratio);
  let upright = select(first, 1.57079633 - first, b > a);
  let angle = select(upright, 3.14159265 - upright, x < {{T}}(0.0));
  return select(angle, -angle, y < {{T}}(0.0));
}

// asin of z from 0 to 1/2, of which u is the square.
fn act_asin_part(z: {{T}}, u: {{T}}) -> {{T}} {
  let p = (((4.21631990e-2 * u + 2.41813110e-2) * u + 4.54700260e-2) * u + 7.49530027e-2) * u + 0.166667524;
  return z + z * u * p;
}

fn act_asin(x: {{T}}) -> {{T}} {
  let a = abs(x);
  let half = 0.5 * (1.0 - a);
  let root = sqrt(half);
  let value = select(act_asin_part(a, a * a), 1.57079633 - 2.0 * act_asin_part(root, half), a > {{T}}(0.5));
  return select(value, -value, x < {{T}}(0.0));
}

fn act_acos(x: {{T}}) -> {{T}} {
  let half = 0.5 * (1.0 - abs(x));
  let root = sqrt(half);
  let outer = 2.0 * act_asin_part(root, half);
  return select(1.57079633 - act_asin_part(x, x * x), select(outer, 3.14159265 - outer, x < {{T}}(0.0)), abs(x) > {{T}}(0.5));
}

fn act_sinh(x: {{T}}) -> {{T}} {
  let z = x * x;
  let near = x + x * z * ((2.03721913e-4 * z + 8.33028376e-3) * z + 0.16666716);
  // Halves inside the power: exp(x) may overflow where sinh does not.
  let e = exp(0.5 * abs(x));
  let far = sign(x) * (0.5 * e * e - 0.5 / e / e);
  return select(far, near, abs(x) < {{T}}(1.0));
}

fn act_cosh(x: {{T}}) -> {{T}} {
  let e = exp(0.5 * abs(x));
  return 0.5 * e * e + 0.5 / e / e;
}

fn act_asinh(x: {{T}}) -> {{T}} {
  let a = abs(x);
  let z = a * a;
  let near = a + a * z * (((2.01220033e-2 * z - 4.26993410e-2) * z + 7.48475861e-2) * z - 0.166662881);
  let far = log(a + sqrt(z + 1.0));
  let beyond = log(a) + 0.693147181;
  return sign(x) * select(select(far, near, a < {{T}}(0.5)), beyond, a > {{T}}(1e4));
}

fn act_acosh(x: {{T}}) -> {{T}} {
  let z = x - 1.0;
  let near = sqrt(z) * ((((1.75968811e-3 * z - 7.52728867e-3) * z + 2.64549050e-2) * z - 0.117847417) * z + 1.41421353);
  let far = log(x + sqrt(z * (x + 1.0)));
  return select(select(far, near, z < {{T}}(0.5)), log(x) + 0.693147181, x > {{T}}(1e4));
}

fn act_atanh(x: {{T}}) -> {{T}} {
  let z = x * x;
  let near = x + x * z * ((((0.181740078 * z + 8.24370301e-2) * z + 0.146691432) * z + 0.199782164) * z + 0.3333373);
  return select(0.5 * log((1.0 + x) / (1.0 - x)), near, abs(x) < {{T}}(0.5));
}
