// gyrus run: tensors in, tensors out.
#include <cmath>

#include "core/files.h"
#include "e2e/e2e_support.h"
#include "import/npy.h"
#include "support/onnx_writer.h"

namespace gyrus::test {
namespace {

using namespace onnx_file;

class Run : public Program {
 protected:
  void write(const std::string& name, const std::string& bytes) const { write_file(in_folder(name), bytes); }
  void write(const std::string& name, const Tensor& tensor) const {
    write_file(in_folder(name), write_npy(tensor, onnx::elem_of(tensor.dtype)));
  }
  Array read(const std::string& name) const {
    const std::vector<std::byte> bytes = read_file(in_folder(name));
    return read_npy(gyrus::bytes_of(bytes), name);
  }
  // y/out:0 = -relu(x), and an inner value "r".
  void write_negative() const {
    write("model.onnx", model(input("x", Float, {-1, 2}) + node("Relu", {"x"}, {"r"}, {}, {}, "first") +
                              node("Neg", {"r"}, {"y/out:0"}) + output("y/out:0")));
  }
};

TEST_F(Run, WritesOutputsAndCapturesUnderSafeNames) {
  write_negative();
  write("x.npy", Tensor::from_floats({2, 2}, {1, -2, 3, -4}));
  run_well({"run", "model.onnx", "--input", "x=x.npy", "--capture", "r", "--output-dir", "out"});
  const Array y = read("out/y_out_0.npy"), r = read("out/r.npy");
  EXPECT_EQ(y.tensor.shape, (Shape{2, 2}));
  EXPECT_EQ(y.tensor.data, Tensor::from_floats({2, 2}, {-1, -0.0f, -3, -0.0f}).data);
  EXPECT_EQ(r.tensor.data, Tensor::from_floats({2, 2}, {1, 0, 3, 0}).data);
}

TEST_F(Run, LimitsAndPrecisionAreKept) {
  write_negative();
  write("x.npy", Tensor::from_floats({1, 2}, {1, -2}));
  write("tiny.json", std::string(R"({"maxStorageBuffersPerShaderStage": 4, "maxComputeInvocationsPerWorkgroup": 64,
    "maxComputeWorkgroupSizeX": 64})"));
  for (const char* limits : {"default", "tiny.json"})
    run_well({"run", "model.onnx", "-i", "x=x.npy", "--limits", limits, "--precision", "f16", "--output-dir", "out"});
  EXPECT_EQ(get(read("out/y_out_0.npy").tensor, 0), -1);
}

TEST_F(Run, RandomInputsGiveATable) {
  write_negative();
  const Outcome outcome = run_well({"run", "model.onnx", "--shape", "x=3,2", "--stats"});
  EXPECT_NE(outcome.err.find("random inputs: x"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("y/out:0"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("[3,2]"), std::string::npos) << outcome.out;
  EXPECT_EQ(run_well({"run", "model.onnx", "--shape", "x=3,2", "--stats"}).out, outcome.out) << "the seed is the same";
  EXPECT_NE(run_well({"run", "model.onnx", "--shape", "x=3,2", "--stats", "--seed", "2"}).out, outcome.out);
}

TEST_F(Run, BoundInputsDecideShapes) {
  write("model.onnx",
        model(input("x", Float, {6}) + input("to", Int64, {2}) + node("Reshape", {"x", "to"}, {"y"}) + output("y")));
  const Outcome unbound = run({"run", "model.onnx"});
  EXPECT_EQ(unbound.status, 5);
  EXPECT_NE(unbound.err.find("'to' decides shapes"), std::string::npos) << unbound.err;
  Tensor to(DType::I64, {2});
  to.as<int64_t>()[0] = 2;
  to.as<int64_t>()[1] = 3;
  write("to.npy", to);
  run_well({"run", "model.onnx", "--bind", "to=to.npy", "--output-dir", "out"});
  EXPECT_EQ(read("out/y.npy").tensor.shape, (Shape{2, 3}));
}

TEST_F(Run, NanCheckNamesTheNode) {
  write("model.onnx",
        model(input("x", Float, {2}) + node("Neg", {"x"}, {"n"}) + node("Log", {"n"}, {"l"}, {}, {}, "the logarithm") +
              node("Relu", {"l"}, {"y"}) + output("y")));
  write("x.npy", Tensor::from_floats({2}, {1, 2}));
  const Outcome outcome = run({"run", "model.onnx", "-i", "x=x.npy", "--nan-check", "--capture", "l"});
  EXPECT_EQ(outcome.status, 8);
  EXPECT_NE(outcome.err.find("the logarithm"), std::string::npos) << outcome.err;
}

TEST_F(Run, ErrorsAreOneLine) {
  write_negative();
  write("x.npy", Tensor::from_floats({1, 2}, {1, 2}));
  write("broken.onnx", text_of(in_folder("model.onnx")).substr(0, 50));
  write("odd.onnx",
        model(input("x", Float, {2}) + node("NoSuchOp", {"x"}, {"a"}) + node("NorThis", {"a"}, {"y"}) + output("y")));
  const auto refused = [&](const std::vector<std::string>& arguments, int status, const std::string& part) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  refused({"run", "broken.onnx"}, 4, "truncated");
  refused({"run", "odd.onnx"}, 5, "NorThis");
  refused({"run", "model.onnx"}, 2, "float[n,2]");
  refused({"run", "model.onnx", "-i", "z=x.npy"}, 2, "no input 'z'");
  refused({"run", "model.onnx", "-i", "x"}, 2, "NAME=VALUE");
  refused({"run", "model.onnx", "-i", "x=none.npy"}, 3, "none.npy");
  refused({"run", "model.onnx", "--shape", "x=2,b"}, 2, "extents");
  refused({"run", "model.onnx", "-i", "x=x.npy", "--capture", "none"}, 2, "'none'");
}

}  // namespace
}  // namespace gyrus::test
