// Convolutions.

#include <algorithm>

#include "core/tensor.h"
#include "gyrus/nn.h"
#include "import/onnx_window.h"

namespace gyrus::onnx {

Ints full_pads(const Ints& lo, const Ints& hi) {
  Ints pads(2, 0);
  pads.insert(pads.end(), lo.begin(), lo.end());
  pads.insert(pads.end(), 2, 0);
  pads.insert(pads.end(), hi.begin(), hi.end());
  return pads;
}

Window window_of(Ctx& c, const Ints& kernel, const Ints& spatial, bool ceil) {
  const size_t rank = spatial.size();
  Window w;
  w.kernel = kernel;
  w.stride = c.list("strides", Ints(rank, 1));
  w.dilation = c.list("dilations", Ints(rank, 1));
  const Ints pads = c.list("pads", Ints(2 * rank, 0));
  if (kernel.size() != rank || w.stride.size() != rank || w.dilation.size() != rank || pads.size() != 2 * rank)
    invalid(cat("kernel, strides, dilations or pads do not suit ", rank, " spatial axes"));
  const std::string automatic = c.text("auto_pad", "NOTSET");
  for (size_t a = 0; a < rank; ++a) {
    if (kernel[a] < 1 || w.stride[a] < 1 || w.dilation[a] < 1) invalid("a kernel, stride or dilation is not positive");
    for (const int64_t number : {kernel[a], w.stride[a], pads[a], pads[a + rank]}) sized(number);
    if (w.dilation[a] > (1 << 20) || kernel[a] > (1 << 20)) invalid("a kernel or dilation is beyond reason");
    if (pads[a] < 0 || pads[a + rank] < 0) unsupported("negative pads");
    const int64_t reach = (kernel[a] - 1) * w.dilation[a] + 1, n = spatial[a], s = w.stride[a];
    int64_t lo = pads[a], hi = pads[a + rank], out = 0;
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      out = ceil_div(n, s);
      const int64_t more = std::max<int64_t>((out - 1) * s + reach - n, 0);
      lo = automatic == "SAME_UPPER" ? more / 2 : more - more / 2;
      hi = more - lo;
    } else {
      if (automatic == "VALID")
        lo = hi = 0;
      else if (automatic != "NOTSET")
        invalid(cat("auto_pad is ", in_quotes(automatic)));
      const int64_t room = n + lo + hi - reach;
      if (room < 0)
        out = 0;
      else
        out = (ceil ? ceil_div(room, s) : room / s) + 1;
      // A window must begin inside, or in what lies before.
      if (ceil && out > 0 && (out - 1) * s >= n + lo) --out;
    }
    w.lo.push_back(lo);
    w.pad_hi.push_back(hi);
    w.hi.push_back(std::max<int64_t>((out - 1) * s + reach - n - lo, hi));
    w.out.push_back(out);
  }
  return w;
}

namespace {

Vals conv_node(Ctx& c) {
  const Val x = c.in(0), weight = c.in(1);
  if (x.rank() < 3 || weight.rank() != x.rank())
    invalid(cat("convolves ", gyrus::to_string(x.shape()), " with ", gyrus::to_string(weight.shape())));
  const Window w = window_of(c, spatial_of(weight.shape()), spatial_of(x.shape()), false);
  return {conv(x, weight, c.opt(2), w.stride, w.dilation, both(w.lo, w.pad_hi), c.integer("group", 1))};
}

Vals conv_transpose(Ctx& c) {
  const Val x = c.in(0), weight = c.in(1);
  if (x.rank() < 3 || weight.rank() != x.rank()) invalid("input and weight have other ranks");
  const Ints spatial = spatial_of(x.shape()), kernel = spatial_of(weight.shape());
  const size_t rank = spatial.size();
  const Ints stride = c.list("strides", Ints(rank, 1)), dilation = c.list("dilations", Ints(rank, 1)),
             more = c.list("output_padding", Ints(rank, 0)), given = c.list("pads", Ints(2 * rank, 0));
  Ints wanted = c.list("output_shape");
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (stride.size() != rank || dilation.size() != rank || more.size() != rank || given.size() != 2 * rank)
    invalid("strides, dilations, output_padding or pads do not suit the rank");
  const std::string automatic = c.text("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  Ints pads(2 * rank);
  for (size_t a = 0; a < rank; ++a) {
    for (const int64_t number : {stride[a], more[a], given[a], given[a + rank]}) sized(number);
    if (stride[a] < 1 || dilation[a] < 1 || dilation[a] > (1 << 20) || kernel[a] > (1 << 20))
      invalid("a stride, dilation or kernel is beyond reason");
    if (!wanted.empty()) sized(wanted.at(a));
    const int64_t reach = (kernel[a] - 1) * dilation[a] + 1;
    const int64_t all = stride[a] * (spatial[a] - 1) + more[a] + reach;
    int64_t before = automatic == "VALID" ? 0 : given[a], after = automatic == "VALID" ? 0 : given[a + rank];
    if (!wanted.empty() || same) {
      const int64_t total = all - (wanted.empty() ? spatial[a] * stride[a] : wanted.at(a));
      // What is odd is cut before, with SAME_UPPER after; halves round down.
      const int64_t half = total >= 0 ? total / 2 : -((1 - total) / 2);
      before = automatic == "SAME_UPPER" ? half : total - half;
      after = total - before;
    }
    pads[a] = before;
    pads[a + rank] = after;
  }
  const int64_t groups = c.integer("group", 1);
  if (groups < 1 || x.extent(1) % groups != 0 || weight.extent(0) != x.extent(1))
    invalid("groups do not divide the channels, or the weight has others");
  return {built({x, weight, c.opt(2)}, [&](const Values& v) {
    return gyrus::conv_transpose(v[0], v[1], {v[2], stride, dilation, pads, more, groups});
  })};
}

// y[n,c,p] = sum over taps of w · x[n,c,p·stride + tap]: with the last inputs of a sequence kept for the next.
Vals causal_conv_with_state(Ctx& c) {
  const Val x = c.in(0), weight = c.in(1);
  const int64_t taps = weight.extent(-1), channels = x.extent(1), length = x.extent(-1);
  const Val past = c.has(3) ? c.in(3) : filled(x, {x.extent(0), channels, taps - 1}, 0);
  const Val all = concat({past, x}, 2);
  const Val present = slice(all, 2, length, length + taps - 1);
  Val y = conv(all, weight, c.opt(2), {1}, {1}, {0, 0}, channels);
  const std::string activation = c.text("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = op("silu", {y});
  else if (activation != "none")
    unsupported(cat("activation ", in_quotes(activation)));
  return {y, present};
}

// Columns of windows put back where they came from, and summed.
Vals col2im(Ctx& c) {
  const Val x = c.in(0);
  const Ints image = c.known_ints(1), block = c.known_ints(2);
  const size_t rank = image.size();
  const Ints stride = c.list("strides", Ints(rank, 1)), dilation = c.list("dilations", Ints(rank, 1)),
             pads = c.list("pads", Ints(2 * rank, 0));
  if (block.size() != rank || stride.size() != rank || dilation.size() != rank || pads.size() != 2 * rank)
    invalid("blocks, strides, dilations or pads do not suit the image");
  for (const Ints* list : {&image, &block, &stride, &dilation, &pads})
    for (const int64_t number : *list)
      if (number < (list == &pads ? 0 : 1) || number > (1 << 20)) invalid("a size is beyond reason");
  return {built({x}, [&](const Values& v) { return gyrus::fold(v[0], image, {block, stride, dilation, pads}); })};
}

}  // namespace

void add_conv_ops(OpTable& t) {
  t["Conv"] = conv_node;
  t["ConvTranspose"] = conv_transpose;
  t["CausalConvWithState"] = causal_conv_with_state;
  t["Col2Im"] = col2im;
}

}  // namespace gyrus::onnx
