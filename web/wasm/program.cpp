// The entry points behind web/src/program.ts that a plan needs; network.cpp has those of the file.

#include "network.h"

using namespace gyrus;

// `request` is types.ts's NetworkRequest. Answers as answer_with_plan() says; gyrus_network_ports() tells the ports.
GYRUS_EXPORT int gyrus_network_plan(const OpenNetwork* network, const char* request) {
  return guarded([&] {
    const Json json = Json::parse(request);
    answer_with_plan(graph_for(*network, json), json);
    return 1;
  });
}

// An ONNX tensor in a file of its own. Text: name, type, dtype and shape; data: its elements.
GYRUS_EXPORT int gyrus_tensor_read(const char* file, const std::byte* bytes, size_t size) {
  return guarded([&] {
    const onnx::TensorProto proto = onnx::read_tensor({bytes, size}, file);
    Tensor tensor = onnx::to_tensor(proto, file);
    answer.text = dump({{"name", proto.name},
                        {"type", onnx::to_string(proto.type)},
                        {"dtype", to_string(tensor.dtype)},
                        {"shape", tensor.shape}});
    answer.data = std::move(tensor.data);
    return 1;
  });
}
