#include "import/inflate.h"

#include <algorithm>
#include <array>

// Raw deflate (RFC 1951). Our own, because importers also run as WASM, where no system library is at hand, and because
// torch writes its zips stored: compressed entries are rare, so that small and checked matters more than fast.
// Codes are decoded bit by bit from the number of codes of each length, in canonical order.

namespace gyrus {
namespace {

constexpr int kMaxBits = 15;
constexpr int kLiterals = 288;
constexpr int kDistances = 30;
constexpr int kEndOfBlock = 256;

class BitReader {
 public:
  BitReader(Bytes data, const std::string& subject) : data_(data), subject_(subject) {}

  uint32_t bits(int count) {
    while (held_ < count) {
      if (next_ == data_.size()) fail(ErrorCode::InvalidModel, subject_, "compressed data end too early");
      buffer_ |= static_cast<uint32_t>(data_[next_++]) << held_;
      held_ += 8;
    }
    const uint32_t value = buffer_ & ((1u << count) - 1);
    buffer_ >>= count;
    held_ -= count;
    return value;
  }
  void to_byte() { buffer_ = 0, held_ = 0; }  // fewer than 8 bits are ever held between two reads
  bool at_end() const { return next_ == data_.size(); }
  size_t used() const { return next_; }

 private:
  Bytes data_;
  const std::string& subject_;
  size_t next_ = 0;
  uint32_t buffer_ = 0;
  int held_ = 0;  // bits in buffer_
};

// A canonical Huffman code: how many codes have each length, and the symbols in the order of their codes.
struct Huffman {
  std::array<uint16_t, kMaxBits + 1> count{};
  std::array<uint16_t, kLiterals> symbol{};
};

// False where the lengths ask for more codes than there are, or leave some unused (allowed for one code only).
bool make_code(const uint8_t* lengths, int n, Huffman& code) {
  code.count.fill(0);
  for (int i = 0; i < n; ++i) ++code.count[lengths[i]];
  int unused = 1;
  for (int length = 1; length <= kMaxBits; ++length) {
    unused = unused * 2 - code.count[static_cast<size_t>(length)];
    if (unused < 0) return false;
  }
  std::array<uint16_t, kMaxBits + 2> start{};
  for (size_t length = 1; length <= kMaxBits; ++length) {
    start[length + 1] = static_cast<uint16_t>(start[length] + code.count[length]);
  }
  for (int i = 0; i < n; ++i) {
    if (lengths[i] != 0) code.symbol[start[lengths[i]]++] = static_cast<uint16_t>(i);
  }
  const int codes = n - code.count[0];
  return unused == 0 || codes <= 1;
}

// Thrown where the output is full.
struct Full {};

class Inflater {
 public:
  Inflater(Bytes data, uint64_t size, const std::string& subject) : in_(data, subject), size_(size), subject_(subject) {
    out_.reserve(static_cast<size_t>(std::min<uint64_t>(size, uint64_t{8} * data.size() + 1024)));
  }

  std::vector<std::byte> run() {
    const Inflated result = start();
    if (!result.complete) bad("more bytes than declared");
    if (out_.size() != size_ || !in_.at_end()) bad("size is not the declared one");
    return std::move(out_);
  }

  // Leaves the bytes in out_.
  Inflated start() {
    try {
      blocks();
    } catch (const Full&) {
      return {};
    }
    return {{}, in_.used(), true};
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  void blocks() {
    for (bool last = false; !last;) {
      last = in_.bits(1) != 0;
      const uint32_t kind = in_.bits(2);
      if (kind == 0) {
        stored();
      } else if (kind == 1) {
        fixed_code();
        block();
      } else if (kind == 2) {
        dynamic_code();
        block();
      } else {
        bad("unknown block type");
      }
    }
  }
  [[noreturn]] void bad(const char* what) const {
    fail(ErrorCode::InvalidModel, subject_, "corrupted compressed data: ", what);
  }
  void put(std::byte b) {
    if (out_.size() == size_) throw Full{};
    out_.push_back(b);
  }
  int decode(const Huffman& code) {
    int value = 0, first = 0, index = 0;
    for (size_t length = 1; length <= kMaxBits; ++length) {
      value |= static_cast<int>(in_.bits(1));
      const int count = code.count[length];
      if (value - first < count) return code.symbol[static_cast<size_t>(index + value - first)];
      index += count;
      first = (first + count) * 2;
      value *= 2;
    }
    bad("unknown code");
  }
  void stored() {
    in_.to_byte();
    const uint32_t length = in_.bits(16);
    if (in_.bits(16) != (length ^ 0xffffu)) bad("stored block's length");
    for (uint32_t i = 0; i < length; ++i) put(static_cast<std::byte>(in_.bits(8)));
  }
  void fixed_code() {
    std::array<uint8_t, kLiterals> lengths{};
    for (size_t i = 0; i < kLiterals; ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    make_code(lengths.data(), kLiterals, literals_);
    lengths.fill(5);
    make_code(lengths.data(), kDistances, distances_);
  }
  void dynamic_code() {
    static constexpr std::array<uint8_t, 19> kOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                       11, 4,  12, 3, 13, 2, 14, 1, 15};
    const int n_literals = static_cast<int>(in_.bits(5)) + 257;
    const int n_distances = static_cast<int>(in_.bits(5)) + 1;
    const size_t n_lengths = in_.bits(4) + 4;
    if (n_literals > 286 || n_distances > kDistances) bad("too many codes");
    std::array<uint8_t, kLiterals + 32> lengths{};
    for (size_t i = 0; i < n_lengths; ++i) lengths[kOrder[i]] = static_cast<uint8_t>(in_.bits(3));
    Huffman code;
    if (!make_code(lengths.data(), 19, code)) bad("code lengths");
    read_lengths(code, lengths.data(), n_literals + n_distances);
    if (lengths[kEndOfBlock] == 0) bad("no end of block");
    if (!make_code(lengths.data(), n_literals, literals_)) bad("literal code");
    if (!make_code(lengths.data() + n_literals, n_distances, distances_)) bad("distance code");
  }
  void read_lengths(const Huffman& code, uint8_t* lengths, int n) {
    for (int i = 0; i < n;) {
      const int symbol = decode(code);
      uint8_t value = 0;
      int repeat = 1;
      if (symbol < 16) {
        value = static_cast<uint8_t>(symbol);
      } else if (symbol == 16) {
        if (i == 0) bad("nothing to repeat");
        value = lengths[i - 1];
        repeat = 3 + static_cast<int>(in_.bits(2));
      } else {
        repeat = symbol == 17 ? 3 + static_cast<int>(in_.bits(3)) : 11 + static_cast<int>(in_.bits(7));
      }
      if (repeat > n - i) bad("too many code lengths");
      for (; repeat > 0; --repeat) lengths[i++] = value;
    }
  }
  void block() {
    static constexpr std::array<uint16_t, 29> kLength = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                                         15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                                         67, 83, 99, 115, 131, 163, 195, 227, 258};
    static constexpr std::array<uint8_t, 29> kLengthBits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                            2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static constexpr std::array<uint16_t, 30> kDistance = {
        1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    for (int symbol = decode(literals_); symbol != kEndOfBlock; symbol = decode(literals_)) {
      if (symbol < kEndOfBlock) {
        put(static_cast<std::byte>(symbol));
        continue;
      }
      const size_t l = static_cast<size_t>(symbol - kEndOfBlock - 1);
      if (l >= kLength.size()) bad("unknown length");
      const uint32_t length = kLength[l] + in_.bits(kLengthBits[l]);
      const size_t d = static_cast<size_t>(decode(distances_));
      if (d >= kDistance.size()) bad("unknown distance");
      const uint32_t distance = kDistance[d] + in_.bits(d < 4 ? 0 : static_cast<int>(d / 2 - 1));
      if (distance > out_.size()) bad("distance before the start");
      for (uint32_t i = 0; i < length; ++i) put(out_[out_.size() - distance]);
    }
  }

  BitReader in_;
  uint64_t size_;  // bytes, as declared
  const std::string& subject_;
  std::vector<std::byte> out_;
  Huffman literals_, distances_;
};

}  // namespace

std::vector<std::byte> inflate(Bytes data, uint64_t size, const std::string& subject) {
  // No deflate stream gives more than 1032 bytes for one; checked before memory is set aside.
  if (size / 1032 > data.size()) fail(ErrorCode::InvalidModel, subject, "declares more bytes than its data can hold");
  return Inflater(data, size, subject).run();
}

Inflated inflate_start(Bytes data, uint64_t most, const std::string& subject) {
  Inflater inflater(data, most, subject);
  Inflated result = inflater.start();
  result.bytes = inflater.take();
  return result;
}

}  // namespace gyrus
