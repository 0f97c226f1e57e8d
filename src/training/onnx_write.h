#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gyrus/tensor.h"

// Writing ONNX files (opset 20, IR 9): a message is a string of bytes, put together field by field.

namespace gyrus {

using OnnxAttribute = std::variant<int64_t, double, std::string, std::vector<int64_t>>;

// A network from one image [1,1,x,y,z] of any extents to scores [1,classes,x,y,z].
class OnnxWriter {
 public:
  OnnxWriter(std::string input, std::string output, int64_t classes);

  // Adds an initializer and gives its name.
  std::string weight(const std::string& name, const Tensor& tensor);
  std::string filled(const std::string& name, const Shape& shape, float value);
  void node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
            const std::vector<std::pair<std::string, OnnxAttribute>>& attributes = {});
  // One of NetworkConfig's.
  void activation(const std::string& name, const std::string& x, const std::string& y);
  std::vector<std::byte> bytes() const;

 private:
  std::string input_, output_;
  int64_t classes_;
  std::string nodes_, initializers_;
};

// The file with other data in the initializers of these names, as f32.
std::vector<std::byte> with_initializers(const std::vector<std::byte>& file,
                                         const std::map<std::string, Tensor>& weights);

// The initializers of a file that are called as these, with their types. What it lacks is left out.
std::map<std::string, Tensor> onnx_weights(const std::string& path, const std::map<std::string, Tensor>& names);

}  // namespace gyrus
