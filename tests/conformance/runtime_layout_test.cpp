// Proves that our webgpu.h fits the Dawn it is linked with. The only place where the Null backend is accepted: it has
// exactly the specification's default limits, so a shifted member shows.

#include <gtest/gtest.h>

#include "core/limits.h"
#include "runtime/adapters.h"

namespace gyrus {
namespace {

constexpr uint32_t kCanary = 0xC0FFEE11;

Handle<WGPUAdapter> null_adapter(WGPUInstance instance) {
  WGPURequestAdapterOptions options{};
  options.featureLevel = WGPUFeatureLevel_Core;
  options.backendType = WGPUBackendType_Null;
  Handle<WGPUAdapter> result;
  WGPURequestAdapterCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.userdata1 = &result;
  callback.callback = [](WGPURequestAdapterStatus, WGPUAdapter adapter, WGPUStringView, void* out, void*) {
    *static_cast<Handle<WGPUAdapter>*>(out) = Handle<WGPUAdapter>(adapter);
  };
  wait(instance, wgpuInstanceRequestAdapter(instance, &options, callback));
  return result;
}

TEST(RuntimeLayout, NullBackendHasTheDefaultLimits) {
  const Handle<WGPUInstance> instance = create_instance();
  const Handle<WGPUAdapter> adapter = null_adapter(instance.get());
  ASSERT_TRUE(adapter);
  WGPUAdapterInfo info{};
  ASSERT_EQ(wgpuAdapterGetInfo(adapter.get(), &info), WGPUStatus_Success);
  EXPECT_EQ(info.backendType, WGPUBackendType_Null);
  EXPECT_EQ(info.adapterType, WGPUAdapterType_CPU);
  EXPECT_EQ(to_line(info.device), "Null backend");
  wgpuAdapterInfoFreeMembers(info);

  struct {
    WGPULimits limits;
    uint32_t canary[8];  // Dawn must not write past the struct
  } guarded{};
  for (uint32_t& c : guarded.canary) c = kCanary;
  ASSERT_EQ(wgpuAdapterGetLimits(adapter.get(), &guarded.limits), WGPUStatus_Success);
  for (uint32_t c : guarded.canary) EXPECT_EQ(c, kCanary);
  const WGPULimits& l = guarded.limits;
  EXPECT_EQ(to_limits(l), default_limits());
  EXPECT_EQ(l.maxTextureDimension1D, 8192u);
  EXPECT_EQ(l.maxTextureDimension2D, 8192u);
  EXPECT_EQ(l.maxTextureDimension3D, 2048u);
  EXPECT_EQ(l.maxTextureArrayLayers, 256u);
  EXPECT_EQ(l.maxBindGroups, 4u);
  EXPECT_EQ(l.maxBindGroupsPlusVertexBuffers, 24u);
  EXPECT_EQ(l.maxBindingsPerBindGroup, 1000u);
  EXPECT_EQ(l.maxDynamicUniformBuffersPerPipelineLayout, 8u);
  EXPECT_EQ(l.maxDynamicStorageBuffersPerPipelineLayout, 4u);
  EXPECT_EQ(l.maxSampledTexturesPerShaderStage, 16u);
  EXPECT_EQ(l.maxSamplersPerShaderStage, 16u);
  EXPECT_EQ(l.maxStorageTexturesPerShaderStage, 4u);
  EXPECT_EQ(l.maxUniformBuffersPerShaderStage, 12u);
  EXPECT_EQ(l.maxVertexBuffers, 8u);
  EXPECT_EQ(l.maxVertexAttributes, 16u);
  EXPECT_EQ(l.maxVertexBufferArrayStride, 2048u);
  EXPECT_EQ(l.maxInterStageShaderVariables, 16u);
  EXPECT_EQ(l.maxColorAttachments, 8u);
  EXPECT_EQ(l.maxColorAttachmentBytesPerSample, 32u);
}

TEST(RuntimeLayout, MessagesBecomeOneLine) {
  EXPECT_EQ(to_line(to_view("a\n  - b\n\n")), "a - b");
  EXPECT_EQ(to_line({nullptr, 0}), "");
  EXPECT_EQ(to_line({"zero-ended", WGPU_STRLEN}), "zero-ended");
}

}  // namespace
}  // namespace gyrus
