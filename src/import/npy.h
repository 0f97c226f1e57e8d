#pragma once
#include <string>
#include <vector>

#include "import/onnx_wire.h"

// Arrays of numpy: .npy, and .npz, which is a zip of them.

namespace gyrus {

struct Array {
  onnx::Elem elem = onnx::Elem::F32;
  Tensor tensor;  // as onnx::stored_as() says
};

bool is_npy(Bytes file);
bool is_zip(Bytes file);
// Little or big endian, C or Fortran order, versions 1 to 3. Throws InvalidInput("[subject] …").
Array read_npy(Bytes file, const std::string& subject);
// The array of that name in an .npz, or the only one that is there.
Array read_npz(Bytes file, const std::string& name, const std::string& subject);
// The tensor in its own element type; bfloat16 is written as f4, which holds it.
std::vector<std::byte> write_npy(const Tensor& tensor, onnx::Elem elem);

// The array as an operand of this type: floats may become other floats, integers other integers that hold their values.
// Throws InvalidInput where they cannot.
Tensor converted(const Array& array, onnx::Elem to, const std::string& subject);

}  // namespace gyrus
