#include "import/pickle.h"

#include <algorithm>
#include <cstring>
#include <map>

// The stack machine of Python's pickle module, restricted. Every value is made by an opcode of its own, so the number
// of values, and with it memory, is bounded by the length of the pickle; nothing here recurses.

namespace gyrus {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kLongestPickle = size_t{16} << 20;  // bytes
constexpr size_t kMostValues = size_t{1} << 20;
constexpr size_t kMostMarks = size_t{1} << 12;
constexpr size_t kHighestRank = 8;

constexpr const char* kOrderedDict = "collections.OrderedDict";
constexpr const char* kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr const char* kRebuildParameter = "torch._utils._rebuild_parameter";

const std::map<std::string, FileType>& storage_types() {
  static const std::map<std::string, FileType> types = {
      {"torch.DoubleStorage", FileType::F64}, {"torch.FloatStorage", FileType::F32},
      {"torch.HalfStorage", FileType::F16},   {"torch.BFloat16Storage", FileType::BF16},
      {"torch.LongStorage", FileType::I64},   {"torch.IntStorage", FileType::I32},
      {"torch.ShortStorage", FileType::I16},  {"torch.CharStorage", FileType::I8},
      {"torch.ByteStorage", FileType::U8},    {"torch.BoolStorage", FileType::Bool},
  };
  return types;
}

class Reader {
 public:
  Reader(Bytes data, const std::string& subject) : in_(data, subject), subject_(subject) {}

  Pickle run() {
    if (in_.left() < 2 || in_.u8() != 0x80) bad("it does not start with a protocol number");
    const uint8_t protocol = in_.u8();
    if (protocol < 2 || protocol > 5) bad(cat("protocol ", int{protocol}, " is not one of 2 to 5"));
    while (step(in_.u8())) {
    }
    if (stack_.size() != 1 || !marks_.empty()) bad("it ends with a stack of more than its result");
    out_.root = stack_.back();
    return std::move(out_);
  }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    fail(ErrorCode::InvalidModel, subject_, "broken pickle at byte ", in_.position(), ": ", what);
  }

  // Executes one opcode; false at the end.
  bool step(uint8_t opcode) {
    switch (opcode) {
      case '.': return false;
      case 0x95: in_.skip(8); break;  // FRAME: a hint for buffering
      case '(': mark(); break;
      case '0': pop(); break;
      case '1': pop_mark(); break;
      case '2': push(top()); break;
      case 'q': memo_[in_.u8()] = top(); break;
      case 'r': memo_[in_.u32()] = top(); break;
      case 0x94: memo_[static_cast<uint32_t>(memo_.size())] = top(); break;
      case 'h': get(in_.u8()); break;
      case 'j': get(in_.u32()); break;
      case 'Q': persistent(); break;
      case 'R': reduce(); break;
      case 'b': build(); break;
      case 'c': global_lines(); break;
      case 0x93: global_stack(); break;
      case 0x81:
      case 0x92: bad("it wants to construct an object: refused");
      default:
        if (!scalar(opcode) && !container(opcode)) bad(cat("opcode ", int{opcode}, " is not one that torch writes"));
    }
    return true;
  }

  bool scalar(uint8_t opcode) {
    switch (opcode) {
      case 'N': make(Kind::None); break;
      case 0x88: make(Kind::Bool).integer = 1; break;
      case 0x89: make(Kind::Bool); break;
      case 'K': make(Kind::Int).integer = in_.u8(); break;
      case 'M': make(Kind::Int).integer = in_.u16(); break;
      case 'J': make(Kind::Int).integer = static_cast<int32_t>(in_.u32()); break;
      case 0x8a: long_int(in_.u8()); break;
      case 0x8b: long_int(in_.u32()); break;
      case 'G': big_endian_double(); break;
      case 'X': text(in_.u32()); break;
      case 0x8c: text(in_.u8()); break;
      case 0x8d: text(in_.u64()); break;
      case 'U':
      case 'C': text(in_.u8()); break;
      case 'T':
      case 'B': text(in_.u32()); break;
      case 0x8e: text(in_.u64()); break;
      default: return false;
    }
    return true;
  }

  bool container(uint8_t opcode) {
    switch (opcode) {
      case ')': make(Kind::Tuple); break;
      case ']': make(Kind::List); break;
      case '}': make(Kind::Dict); break;
      case 't': collect(Kind::Tuple, since_mark()); break;
      case 'l': collect(Kind::List, since_mark()); break;
      case 'd': collect(Kind::Dict, since_mark()); break;
      case 0x85: collect(Kind::Tuple, last(1)); break;
      case 0x86: collect(Kind::Tuple, last(2)); break;
      case 0x87: collect(Kind::Tuple, last(3)); break;
      case 'a': append(Kind::List, last(1)); break;
      case 'e': append(Kind::List, since_mark()); break;
      case 's': append(Kind::Dict, last(2)); break;
      case 'u': append(Kind::Dict, since_mark()); break;
      default: return false;
    }
    return true;
  }

  // The stack. Values above the last mark belong to it and cannot be popped past it.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  void push(PickleRef ref) {
    if (stack_.size() >= kMostValues) bad("its stack is too deep");
    stack_.push_back(ref);
  }
  PickleRef top() const {
    if (stack_.size() <= floor()) bad("it takes from an empty stack");
    return stack_.back();
  }
  PickleRef pop() {
    const PickleRef ref = top();
    stack_.pop_back();
    return ref;
  }
  void mark() {
    if (marks_.size() == kMostMarks) bad("it is nested too deeply");
    marks_.push_back(stack_.size());
  }
  void pop_mark() { since_mark(); }
  std::vector<PickleRef> since_mark() {
    if (marks_.empty()) bad("it takes from a mark that is not there");
    const std::vector<PickleRef> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<PickleRef> last(size_t count) {
    if (stack_.size() < floor() + count) bad("it takes from an empty stack");
    const std::vector<PickleRef> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  void get(uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) bad("it uses a value that it never stored");
    push(found->second);
  }

  PickleValue& make(Kind kind) {
    if (out_.values.size() == kMostValues) bad("it makes too many values");
    push(static_cast<PickleRef>(out_.values.size()));
    out_.values.emplace_back().kind = kind;
    return out_.values.back();
  }
  void text(uint64_t size) {
    const std::string_view view = in_.text(size);
    make(Kind::Text).text = view;
  }
  void long_int(uint32_t size) {
    const Bytes bytes = in_.take(size);
    uint64_t value = size > 0 && (bytes[size - 1] & std::byte{0x80}) != std::byte{0} ? ~uint64_t{0} : 0;
    for (size_t i = std::min<size_t>(size, 8); i-- > 0;) value = (value << 8) | static_cast<uint64_t>(bytes[i]);
    PickleValue& made = make(Kind::Int);
    made.integer = static_cast<int64_t>(value);
    made.broken_int = size > 8;
  }
  void big_endian_double() {
    uint64_t bits = 0;
    for (const std::byte b : in_.take(8)) bits = (bits << 8) | static_cast<uint64_t>(b);
    std::memcpy(&make(Kind::Float).number, &bits, sizeof bits);
  }
  void collect(Kind kind, std::vector<PickleRef> items) {
    if (kind == Kind::Dict && items.size() % 2 != 0) bad("it makes a dict from an odd number of values");
    make(kind).items = std::move(items);
  }
  void append(Kind kind, const std::vector<PickleRef>& items) {
    PickleValue& target = out_.values[top()];
    if (target.kind != kind) bad(cat("it adds items to a ", to_string(target.kind)));
    if (kind == Kind::Dict && items.size() % 2 != 0) bad("it gives a dict an odd number of values");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  void global_lines() {
    std::string parts[2];
    for (std::string& part : parts) {
      for (char c = static_cast<char>(in_.u8()); c != '\n'; c = static_cast<char>(in_.u8())) part += c;
    }
    global(parts[0] + "." + parts[1]);
  }
  void global_stack() {
    const std::vector<PickleRef> names = last(2);
    for (const PickleRef name : names) {
      if (out_[name].kind != Kind::Text) bad("the name of a global is no text");
    }
    global(out_[names[0]].text + "." + out_[names[1]].text);
  }
  void global(const std::string& name) {
    if (name.rfind("torch.nn.", 0) == 0) {
      fail(ErrorCode::Unsupported, subject_, "holds a whole pickled module (", in_quotes(name),
           "), not a state dict; save model.state_dict()");
    }
    if (name != kOrderedDict && name != kRebuildTensor && name != kRebuildParameter && !storage_types().count(name)) {
      fail(ErrorCode::InvalidModel, subject_, "the pickle wants to call ", in_quotes(name),
           ": refused (only tensors in plain dicts are read; save model.state_dict())");
    }
    make(Kind::Global).text = name;
  }

  void reduce() {
    const std::vector<PickleRef> call = last(2);
    const PickleValue& callee = out_[call[0]];
    const PickleValue& arguments = out_[call[1]];
    if (callee.kind != Kind::Global || arguments.kind != Kind::Tuple) bad("it calls something that is no function");
    if (callee.text == kOrderedDict) {
      ordered_dict(std::vector<PickleRef>(arguments.items));
    } else if (callee.text == kRebuildTensor) {
      tensor(std::vector<PickleRef>(arguments.items));
    } else if (callee.text == kRebuildParameter && !arguments.items.empty() &&
               out_[arguments.items[0]].kind == Kind::Tensor) {
      push(arguments.items[0]);
    } else {
      bad(cat("a call of ", in_quotes(callee.text), " with arguments that torch does not write"));
    }
  }
  void ordered_dict(const std::vector<PickleRef>& arguments) {
    std::vector<PickleRef> items;
    if (arguments.size() > 1) bad("an OrderedDict of several arguments");
    if (arguments.size() == 1) {
      for (const PickleRef pair : out_[arguments[0]].items) {
        if (out_[pair].items.size() != 2) bad("an OrderedDict of something else than pairs");
        items.insert(items.end(), out_[pair].items.begin(), out_[pair].items.end());
        // One pair may be named again and again through the memo, so the bound by length does not hold here.
        if (items.size() > kMostValues) bad("an OrderedDict with too many items");
      }
    }
    collect(Kind::Dict, std::move(items));
  }
  // (storage, offset, size, stride, requires_grad, backward_hooks[, metadata])
  void tensor(const std::vector<PickleRef>& arguments) {
    if (arguments.size() < 6 || arguments.size() > 7 || out_[arguments[0]].kind != Kind::Storage) {
      bad("a tensor with arguments that torch does not write");
    }
    const int64_t offset = size(arguments[1]);
    std::vector<int64_t> shape = sizes(arguments[2]);
    std::vector<int64_t> strides = sizes(arguments[3]);
    if (shape.size() != strides.size()) bad("a tensor with as many strides as it has not axes");
    PickleValue& made = make(Kind::Tensor);
    made.integer = offset;
    made.shape = std::move(shape);
    made.strides = std::move(strides);
    made.items = {arguments[0]};
  }
  int64_t size(PickleRef ref) const {
    const PickleValue& value = out_[ref];
    if (value.kind != Kind::Int || value.broken_int || value.integer < 0) bad("a size that is no size");
    return value.integer;
  }
  std::vector<int64_t> sizes(PickleRef ref) const {
    const PickleValue& value = out_[ref];
    if (value.kind != Kind::Tuple || value.items.size() > kHighestRank) bad("a shape that is no short tuple");
    std::vector<int64_t> out;
    for (const PickleRef item : value.items) out.push_back(size(item));
    return out;
  }

  // ("storage", type, key, location, number of elements)
  void persistent() {
    const PickleRef id = pop();
    if (out_[id].kind != Kind::Tuple || out_[id].items.size() < 5) bad("a persistent id that torch does not write");
    const std::vector<PickleRef> parts = out_[id].items;
    const auto type = storage_types().find(out_[parts[1]].text);
    if (out_[parts[0]].kind != Kind::Text || out_[parts[0]].text != "storage" || out_[parts[1]].kind != Kind::Global ||
        type == storage_types().end() || out_[parts[2]].kind != Kind::Text) {
      bad("a persistent id that torch does not write");
    }
    const int64_t count = size(parts[4]);
    std::string key = out_[parts[2]].text;
    PickleValue& made = make(Kind::Storage);
    made.type = type->second;
    made.text = std::move(key);
    made.integer = count;
  }

  // torch hangs an attribute `_metadata` on the OrderedDict; nothing in it is needed.
  void build() {
    pop();
    if (out_[top()].kind != Kind::Dict) bad("it wants to set the state of an object: refused");
  }

  ByteReader in_;
  const std::string& subject_;
  Pickle out_;
  std::vector<PickleRef> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::map<uint32_t, PickleRef> memo_;
};

}  // namespace

const char* to_string(PickleValue::Kind kind) {
  static constexpr const char* kNames[] = {"None", "bool", "int",  "float",   "str",   "tuple",
                                           "list", "dict", "type", "storage", "tensor"};
  return kNames[static_cast<size_t>(kind)];
}

Pickle read_pickle(Bytes data, const std::string& subject) {
  if (data.size() > kLongestPickle) fail(ErrorCode::InvalidModel, subject, "pickle of ", data.size(), " bytes");
  return Reader(data, subject).run();
}

}  // namespace gyrus
