#include "op_cases_build.h"

// Tensors of 2 MiB and more: with tiny limits (bindings of 1 MiB, buffers of 2 MiB) they lie in several blocks, and
// windows with halos move over them.

namespace gyrus::test {
namespace {

OpCase large(const std::string& name, const std::string& op) {
  OpCase c{"large_" + name, op, {}};
  c.large = true;
  return c;
}

OpCase large_exact(const std::string& name, const std::string& op) {
  OpCase c = large(name, op);
  c.exact = true;
  return c;
}

void add_convolutions(std::vector<OpCase>& cases) {
  for (const int64_t d : {1, 4, 16})
    cases.push_back(make_case(large("conv_dilation" + std::to_string(d), "conv"), [d](CaseBuilder& b) {
      const ValueId x = b.input({1, 8, 44, 42, 40});
      b.output(b.add("conv", {x, b.weight({8, 8, 3, 3, 3}), b.constant({8})},
                     {{"dilation", Ints{d, d, d}}, {"pads", Ints(6, d)}}));
    }));
  // One quad of channels is more than 2 MiB: the quad itself is cut, and the halo reaches over the cut.
  cases.push_back(make_case(large("conv_cut_quad", "conv"), [](CaseBuilder& b) {
    const ValueId x = b.input({1, 3, 52, 50, 54});
    b.output(b.add("conv", {x, b.weight({4, 3, 3, 3, 3}), b.constant({4})},
                   {{"dilation", Ints{16, 8, 4}}, {"pads", Ints{16, 8, 4, 16, 8, 4}}}));
  }));
  cases.push_back(make_case(large("conv_stats", "conv"), [](CaseBuilder& b) {
    Node node;
    node.op = "conv";
    node.inputs = {b.input({1, 1, 52, 50, 54}), b.weight({5, 1, 3, 3, 3})};
    node.attrs = {{"pads", Ints(6, 1)}, {"stats", int64_t{1}}};
    for (ValueId id : b.add_node(node)) b.output(id);
  }));
  OpCase labels = large_exact("conv_argmax", "conv_argmax");
  labels.fill = Fill::Whole;
  labels.lo = -3;
  labels.hi = 3;
  cases.push_back(make_case(labels, [](CaseBuilder& b) {
    const ValueId x = b.input({1, 8, 40, 42, 44});
    b.output(b.add("conv_argmax", {x, b.weight({18, 8, 1, 1, 1}), b.constant({18})}, {{"dtype", "u8"}}));
  }));
}

void add_norms(std::vector<OpCase>& cases) {
  OpCase far = large("group_norm_far_mean", "group_norm");
  far.lo = 100;
  cases.push_back(make_case(far, [](CaseBuilder& b) {
    const ValueId x = b.input({1, 16, 32, 34, 36});
    b.output(b.add("group_norm", {x, b.positive({16}), b.constant({16})}, {{"groups", int64_t{4}}}));
  }));
  cases.push_back(make_case(large("instance_norm", "instance_norm"), [](CaseBuilder& b) {
    b.output(b.add("instance_norm", {b.input({2, 5, 40, 41, 42})}));
  }));
  cases.push_back(make_case(large("softmax", "softmax"), [](CaseBuilder& b) {
    b.output(b.add("softmax", {b.input({1, 21, 30, 32, 34})}, {{"axis", int64_t{1}}}));
  }));
}

void add_plain(std::vector<OpCase>& cases) {
  cases.push_back(make_case(large("add_broadcast", "add"), [](CaseBuilder& b) {
    const ValueId x = b.add("mul", {b.input({1, 8, 48, 48, 48}), b.constant({8, 1, 1, 1})});
    b.output(b.add("gelu", {b.add("add", {x, b.input({48, 48, 48})})}));
  }));
  cases.push_back(make_case(large_exact("transpose", "transpose"), [](CaseBuilder& b) {
    b.output(b.add("transpose", {b.input({64, 97, 128})}, {{"perm", Ints{2, 0, 1}}}));
  }));
  cases.push_back(make_case(large("reduce_middle", "reduce_mean"), [](CaseBuilder& b) {
    b.output(b.add("reduce_mean", {b.input({40, 129, 160})}, {{"axes", Ints{1}}}));
  }));
  cases.push_back(make_case(large("reduce_all", "reduce_sum"), [](CaseBuilder& b) {
    b.output(b.add("reduce_sum", {b.input({40, 129, 160})}));
  }));
  cases.push_back(make_case(large_exact("concat5", "concat"), [](CaseBuilder& b) {
    std::vector<ValueId> parts;
    for (const int64_t channels : {8, 5, 4, 7, 8}) parts.push_back(b.input({1, channels, 32, 48, 64}));
    b.output(b.add("concat", parts, {{"axis", int64_t{1}}}));
  }));
}

}  // namespace

void add_large_cases(std::vector<OpCase>& cases) {
  add_convolutions(cases);
  add_norms(cases);
  add_plain(cases);
}

}  // namespace gyrus::test
