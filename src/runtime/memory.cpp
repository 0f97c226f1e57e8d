#include "gyrus/memory.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/tensor.h"
#include "import/safetensors.h"
#include "runtime/memory_impl.h"
#include "runtime/staging.h"

namespace gyrus {
namespace {

constexpr WGPUBufferUsage kStateUsage = WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst;

std::string text_of(const StateInfo& info) { return cat(to_string(info.dtype), to_string(info.shape)); }

uint64_t exact_bytes(const StateInfo& info) {
  return static_cast<uint64_t>(element_count(info.shape)) * byte_size(info.dtype);
}

// A state that is there already must be the same in the plan.
void check_shared(const PlanState& state, const Resident& resident) {
  const StateInfo info{state.dtype, state.shape};
  if (text_of(info) != text_of(resident.info))
    fail(ErrorCode::InvalidInput, state.name, "the plan's state is ", text_of(info), ", the memory has ",
         text_of(resident.info));
  const auto same = [](const Piece& piece, const Buffer& buffer) { return piece.range.size == buffer.size(); };
  if (!std::equal(state.pieces.begin(), state.pieces.end(), resident.buffers.begin(), resident.buffers.end(), same))
    fail(ErrorCode::InvalidInput, state.name,
         "the plan cuts this state in another way than the memory: plan both for the same limits");
}

void check_value(const std::string& name, const StateInfo& wanted, const Tensor& value) {
  const StateInfo found{value.dtype, value.shape};
  if (text_of(found) != text_of(wanted))
    fail(ErrorCode::InvalidInput, name, "the state takes ", text_of(wanted), ", the tensor is ", text_of(found));
  if (value.data.size() != exact_bytes(wanted))
    fail(ErrorCode::InvalidInput, name, "the tensor has ", value.data.size(), " bytes, which do not fit its shape");
}

// Bytes [begin, end) of the state.
struct Extent {
  uint64_t begin = 0, end = 0;
};

Extent extent_of(const std::string& name, const StateInfo& info, const std::optional<StateRange>& range) {
  if (!range) return {0, exact_bytes(info)};
  const auto count = static_cast<uint64_t>(element_count(info.shape));
  if (range->offset > count || range->count > count - range->offset)
    fail(ErrorCode::InvalidInput, name, "elements ", range->offset, " to ", range->offset + range->count,
         " are not among the ", count, " of this state");
  const uint64_t size = byte_size(info.dtype);
  return {range->offset * size, (range->offset + range->count) * size};
}

// Whole words of a buffer that hold a part of the bytes asked for.
struct Words {
  WGPUBuffer buffer = nullptr;
  uint64_t offset = 0, size = 0;  // in the buffer
  uint64_t skip = 0;              // bytes before the part
  uint64_t at = 0, count = 0;     // the part, in the bytes asked for
};

std::vector<Words> cut(const Resident& resident, const Extent& extent) {
  std::vector<Words> parts;
  uint64_t first = 0;  // byte of the state that the buffer begins with
  for (const Buffer& buffer : resident.buffers) {
    const uint64_t begin = std::max(extent.begin, first), end = std::min(extent.end, first + buffer.size());
    if (begin < end) {
      const uint64_t offset = round_down(begin - first, 4);
      parts.push_back({buffer.get(), offset, round_up(end - first, 4) - offset, begin - first - offset,
                       begin - extent.begin, end - begin});
    }
    first += buffer.size();
  }
  return parts;
}

Tensor read_extent(DeviceImpl& device, const Resident& resident, const Extent& extent, Shape shape) {
  Tensor tensor(resident.info.dtype, std::move(shape));
  if (device.pool) {
    std::copy_n(resident.host.begin() + static_cast<std::ptrdiff_t>(extent.begin), extent.end - extent.begin,
                tensor.data.begin());
    return tensor;
  }
  const std::vector<Words> parts = cut(resident, extent);
  std::vector<std::vector<std::byte>> words;
  for (const Words& part : parts) words.emplace_back(part.size);
  std::vector<Readback> readbacks;
  for (size_t i = 0; i < parts.size(); ++i)
    readbacks.push_back({parts[i].buffer, parts[i].offset, parts[i].size, words[i].data(), parts[i].size});
  read_back(device, readbacks);
  for (size_t i = 0; i < parts.size(); ++i)
    std::memcpy(tensor.data.data() + parts[i].at, words[i].data() + parts[i].skip, parts[i].count);
  return tensor;
}

void write_extent(DeviceImpl& device, Resident& resident, const Extent& extent, const std::byte* data) {
  if (device.pool) {
    std::copy_n(data, extent.end - extent.begin, resident.host.begin() + static_cast<std::ptrdiff_t>(extent.begin));
    return;
  }
  for (const Words& part : cut(resident, extent)) {
    const bool to_the_end = extent.end == exact_bytes(resident.info);
    if (part.skip == 0 && (part.count % 4 == 0 || to_the_end)) {
      upload(device, part.buffer, part.offset, part.size, data + part.at, part.count);
      continue;
    }
    // What shares a word with the part is read first and written back.
    std::vector<std::byte> words(part.size);
    read_back(device, {{part.buffer, part.offset, part.size, words.data(), part.size}});
    std::memcpy(words.data() + part.skip, data + part.at, part.count);
    upload(device, part.buffer, part.offset, part.size, words.data(), part.size);
  }
}

}  // namespace

uint64_t Resident::bytes() const {
  uint64_t sum = host.size();
  for (const Buffer& buffer : buffers) sum += buffer.size();
  return sum;
}

MemoryImpl::Turn::Turn(MemoryImpl& memory, bool run) : memory_(memory), lock_(memory.mutex_), run_(run) {
  if (memory_.running_)
    fail(ErrorCode::InvalidInput, "memory", "is in use by the run that calls: wait until it has ended");
  memory_.running_ = run;
}

MemoryImpl::Turn::~Turn() {
  if (run_) memory_.running_ = false;
}

Resident& MemoryImpl::find(const std::string& name) {
  const auto found = residents.find(name);
  if (found != residents.end()) return found->second;
  std::string known;
  for (const auto& [other, resident] : residents) known += (known.empty() ? "" : ", ") + other;
  fail(ErrorCode::InvalidInput, name, "there is no such state; there are: ", known.empty() ? "none" : known);
}

void MemoryImpl::fill(Resident& resident) {
  uint64_t at = 0;
  if (device->pool) {
    const std::byte* start = resident.start ? resident.plan->weights.data() + *resident.start : nullptr;
    resident.host.assign(exact_bytes(resident.info), std::byte{0});
    if (start) std::copy_n(start, resident.host.size(), resident.host.begin());
  }
  for (const Buffer& buffer : resident.buffers) {
    const std::byte* data = resident.start ? resident.plan->weights.data() + *resident.start + at : nullptr;
    upload(*device, buffer.get(), 0, buffer.size(), data, data ? buffer.size() : 0);
    at += buffer.size();
  }
  resident.defined = true;
}

std::map<uint32_t, WGPUBuffer> MemoryImpl::attach(const std::shared_ptr<const Plan>& plan) {
  const Turn turn(*this, false);
  std::map<std::string, Resident> fresh;
  std::map<uint32_t, WGPUBuffer> buffers;
  for (const PlanState& state : plan->states) {
    const auto known = residents.find(state.name);
    if (known != residents.end()) check_shared(state, known->second);
  }
  for (const PlanState& state : plan->states) {
    auto known = residents.find(state.name);
    if (known == residents.end()) {
      known = fresh.emplace(state.name, Resident{{state.dtype, state.shape}, {}, {}, plan, state.start, true}).first;
      for (const Piece& piece : state.pieces)
        known->second.buffers.push_back(
            device->create_buffer(cat("state '", state.name, "'"), piece.range.size, kStateUsage, /*mapped=*/false));
      if (state.start || device->pool) fill(known->second);  // new buffers hold zeros
    }
    for (size_t i = 0; i < state.pieces.size(); ++i)
      buffers[state.pieces[i].range.buffer] = known->second.buffers[i].get();
  }
  residents.merge(fresh);
  return buffers;
}

void MemoryImpl::check_defined(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (!find(name).defined)
      fail(ErrorCode::InvalidInput, name,
           "the state is undefined since a run failed that writes it: write it as a whole, reset or load it");
}

void MemoryImpl::set_defined(const std::vector<std::string>& names, bool defined) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) find(name).defined = defined;
}

Memory::Memory(const Device& device) : impl_(std::make_shared<MemoryImpl>()) { impl_->device = device.impl(); }

uint64_t Memory::bytes() const {
  const MemoryImpl::Turn turn(*impl_, false);
  uint64_t sum = 0;
  for (const auto& [name, resident] : impl_->residents) sum += resident.bytes();
  return sum;
}

std::vector<std::string> Memory::names() const {
  const MemoryImpl::Turn turn(*impl_, false);
  std::vector<std::string> names;
  for (const auto& [name, resident] : impl_->residents) names.push_back(name);
  return names;
}

bool Memory::has(const std::string& name) const {
  const MemoryImpl::Turn turn(*impl_, false);
  return impl_->residents.count(name) > 0;
}

StateInfo Memory::describe(const std::string& name) const {
  const MemoryImpl::Turn turn(*impl_, false);
  return impl_->find(name).info;
}

std::vector<std::string> Memory::undefined() const {
  const MemoryImpl::Turn turn(*impl_, false);
  std::vector<std::string> names;
  for (const auto& [name, resident] : impl_->residents)
    if (!resident.defined) names.push_back(name);
  return names;
}

Tensor Memory::read(const std::string& name, std::optional<StateRange> range) const {
  const MemoryImpl::Turn turn(*impl_, false);
  impl_->device->check("reading a state");
  const Resident& resident = impl_->find(name);
  impl_->check_defined({name});
  const Shape shape = range ? Shape{static_cast<int64_t>(range->count)} : resident.info.shape;
  return read_extent(*impl_->device, resident, extent_of(name, resident.info, range), shape);
}

void Memory::write(const std::string& name, const Tensor& value, std::optional<StateRange> range) {
  const MemoryImpl::Turn turn(*impl_, false);
  impl_->device->check("writing a state");
  Resident& resident = impl_->find(name);
  const Extent extent = extent_of(name, resident.info, range);
  if (range) impl_->check_defined({name});
  check_value(name, range ? StateInfo{resident.info.dtype, {static_cast<int64_t>(range->count)}} : resident.info,
              value);
  write_extent(*impl_->device, resident, extent, value.data.data());
  resident.defined = true;
}

void Memory::write_bytes(const std::string& name, uint64_t offset, const std::byte* data, uint64_t bytes) {
  const MemoryImpl::Turn turn(*impl_, false);
  impl_->device->check("writing a state");
  Resident& resident = impl_->find(name);
  const uint64_t all = exact_bytes(resident.info);
  if (offset > all || bytes > all - offset)
    fail(ErrorCode::InvalidInput, name, "bytes ", offset, " to ", offset + bytes, " are not among the ", all,
         " of this state");
  if (bytes != all) impl_->check_defined({name});
  write_extent(*impl_->device, resident, {offset, offset + bytes}, data);
  resident.defined = true;
}

void Memory::write(const std::map<std::string, Tensor>& values) {
  const MemoryImpl::Turn turn(*impl_, false);
  for (const auto& [name, value] : values) check_value(name, impl_->find(name).info, value);
  for (const auto& [name, value] : values) write(name, value);
}

void Memory::reset() { reset(names()); }

void Memory::reset(const std::vector<std::string>& names) {
  const MemoryImpl::Turn turn(*impl_, false);
  impl_->device->check("resetting states");
  for (const std::string& name : names) impl_->find(name);
  for (const std::string& name : names) impl_->fill(impl_->find(name));
}

std::vector<std::byte> Memory::save() const { return save(names()); }

std::vector<std::byte> Memory::save(const std::vector<std::string>& names) const {
  const MemoryImpl::Turn turn(*impl_, false);
  std::map<std::string, Tensor> tensors;
  for (const std::string& name : names) tensors[name] = read(name);
  return write_safetensors(tensors);
}

void Memory::load(const std::vector<std::byte>& file) { write(read_safetensors_exactly(bytes_of(file), "states")); }

}  // namespace gyrus
