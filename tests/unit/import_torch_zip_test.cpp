#include "import/torch_zip.h"

#include "import/pickle.h"
#include "unit/import_support.h"

namespace gyrus::test {
namespace {

StateDict read(const ByteVector& file) { return read_torch_zip(bytes_of(file), "m.pth"); }

// A torch zip of one pickle that starts as given and ends with STOP; storage "0" holds `storage`.
ByteVector zip_of(PickleWriter& pickle, const ByteVector& storage = float_bytes({1, 2, 3, 4, 5, 6})) {
  return make_torch_zip(pickle.finish(), {storage});
}

std::vector<float> floats(const NamedTensor* entry) {
  const float* values = entry->tensor->as<float>();
  return {values, values + entry->tensor->size()};
}

TEST(TorchZip, ReadsAStateDictInItsOrder) {
  const std::vector<NamedFloats> want = {ramp("b.weight", {2, 3}), ramp("a.bias", {4}), ramp("scalar", {})};
  const StateDict state = read(make_torch_zip(want));
  ASSERT_EQ(state.entries().size(), 3u);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(state.entries()[i].name, want[i].name);
    EXPECT_EQ(state.entries()[i].tensor->shape, want[i].shape);
    EXPECT_EQ(floats(&state.entries()[i]), want[i].values);
  }
}

TEST(TorchZip, MakesViewsContiguous) {
  PickleWriter pickle;
  pickle.raw("}(").text("t").tensor("FloatStorage", "0", 6, 0, {3, 2}, {1, 3});
  pickle.text("row").tensor("FloatStorage", "0", 6, 3, {3}, {1}).raw("u");
  const StateDict state = read(zip_of(pickle));
  EXPECT_EQ(floats(state.find("t")), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(floats(state.find("row")), (std::vector<float>{4, 5, 6}));
}

TEST(TorchZip, ConvertsTheElementTypes) {
  struct Case {
    const char* type;
    ByteVector data;
    DType want;
  };
  const Case cases[] = {{"FloatStorage", ByteWriter().u32(0xc0200000).out(), DType::F32},
                        {"HalfStorage", ByteWriter().u16(0xc100).out(), DType::F32},
                        {"BFloat16Storage", ByteWriter().u16(0xc020).out(), DType::F32},
                        {"DoubleStorage", ByteWriter().u64(0xc004000000000000).out(), DType::F32},
                        {"LongStorage", ByteWriter().u64(static_cast<uint64_t>(-3)).out(), DType::I32},
                        {"IntStorage", ByteWriter().u32(0xfffffffd).out(), DType::I32},
                        {"ShortStorage", ByteWriter().u16(0xfffd).out(), DType::I32},
                        {"CharStorage", ByteWriter().u8(0xfd).out(), DType::I32},
                        {"ByteStorage", ByteWriter().u8(7).out(), DType::U8},
                        {"BoolStorage", ByteWriter().u8(1).out(), DType::U8}};
  const double want[] = {-2.5, -2.5, -2.5, -2.5, -3, -3, -3, -3, 7, 1};
  for (size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(cases[i].type);
    PickleWriter pickle;
    pickle.raw("}").text("x").tensor(cases[i].type, "0", 1, 0, {}, {}).raw("s");
    const StateDict state = read(zip_of(pickle, cases[i].data));
    EXPECT_EQ(state.find("x")->tensor->dtype, cases[i].want);
    EXPECT_EQ(get(*state.find("x")->tensor, 0), want[i]);
  }
  PickleWriter pickle;
  pickle.raw("}").text("x").tensor("LongStorage", "0", 1, 0, {}, {}).raw("s");
  expect_error(ErrorCode::Unsupported, "'x' is I64 with values beyond 32 bits",
               [&] { read(zip_of(pickle, ByteWriter().u64(uint64_t{1} << 40).out())); });
}

TEST(TorchZip, ReadsWhatProtocol4Writes) {
  // SHORT_BINUNICODE, MEMOIZE, STACK_GLOBAL, FRAME, a Parameter and an attribute on the dict.
  PickleWriter pickle(4);
  pickle.raw("\x95").raw(std::string(8, '\0'));
  pickle.raw(
      "\x8c\x0b"
      "collections\x8c\x0b"
      "OrderedDict\x93\x94)R\x94");
  pickle.raw("\x8c\x01w").global("torch._utils", "_rebuild_parameter").raw("(");
  pickle.tensor("FloatStorage", "0", 6, 0, {6}, {1}).byte(0x88).raw("h").byte(0).raw(")RtRs");
  pickle.raw("}").text("_metadata").raw("h").byte(1).raw("sb");
  EXPECT_EQ(floats(read(zip_of(pickle)).find("w")), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(TorchZip, UnwrapsCheckpointsAndPrefixes) {
  for (const char* key : {"state_dict", "model_state_dict", "model"}) {
    PickleWriter pickle;
    pickle.raw("}(").text("epoch").integer(3).text(key).raw("}(");
    pickle.text("module.a").tensor("FloatStorage", "0", 6, 0, {6}, {1});
    pickle.text("module.b").tensor("FloatStorage", "0", 6, 0, {6}, {1}).raw("uu");
    const StateDict state = read(zip_of(pickle));
    ASSERT_EQ(state.entries().size(), 2u);
    EXPECT_NE(state.find("a"), nullptr);
    EXPECT_NE(state.find("b"), nullptr);
  }
}

TEST(TorchZip, CallsNothing) {
  const auto refused = [](const std::string& module, const std::string& name, ErrorCode code, const std::string& part) {
    for (const bool stacked : {false, true}) {
      PickleWriter pickle(4);
      if (stacked)
        pickle.text(module).text(name).raw("\x93");
      else
        pickle.global(module, name);
      pickle.text("rm -rf /").raw("\x85R");
      expect_error(code, part, [&] { read(zip_of(pickle)); });
    }
  };
  refused("os", "system", ErrorCode::InvalidModel, "[m.pth] the pickle wants to call 'os.system': refused");
  refused("builtins", "eval", ErrorCode::InvalidModel, "'builtins.eval'");
  refused("torch", "load", ErrorCode::InvalidModel, "'torch.load'");
  refused("numpy.core.multiarray", "_reconstruct", ErrorCode::InvalidModel, "'numpy.core.multiarray._reconstruct'");
  refused("collections", "OrderedDict\x01.x", ErrorCode::InvalidModel, "'collections.OrderedDict?.x'");
  refused("torch.nn.modules.container", "Sequential", ErrorCode::Unsupported,
          "holds a whole pickled module ('torch.nn.modules.container.Sequential'), not a state dict; save "
          "model.state_dict()");

  PickleWriter construct;
  construct.global("collections", "OrderedDict").raw(")\x81");
  expect_error(ErrorCode::InvalidModel, "construct an object", [&] { read(zip_of(construct)); });
  PickleWriter state;
  state.global("torch", "FloatStorage").raw("}b");
  expect_error(ErrorCode::InvalidModel, "set the state of an object", [&] { read(zip_of(state)); });
  PickleWriter storage;
  storage.global("torch", "FloatStorage").raw(")R");
  expect_error(ErrorCode::InvalidModel, "'torch.FloatStorage'", [&] { read(zip_of(storage)); });
}

TEST(TorchZip, RefusesTensorsOutsideTheirStorage) {
  const int64_t huge = int64_t{1} << 62;
  struct Case {
    int64_t size, offset;
    std::vector<int64_t> shape, strides;
    ErrorCode code;
    const char* part;
  };
  const Case cases[] = {
      {6, 0, {7}, {1}, ErrorCode::InvalidModel, "reaches beyond its storage"},
      {6, 1, {6}, {1}, ErrorCode::InvalidModel, "reaches beyond its storage"},
      {6, 0, {2, 3}, {6, 1}, ErrorCode::InvalidModel, "reaches beyond its storage"},
      {6, huge, {1}, {1}, ErrorCode::InvalidModel, "reaches beyond its storage"},
      {6, 0, {huge, huge, huge}, {huge, huge, huge}, ErrorCode::InvalidModel, "reaches beyond its storage"},
      {6, 0, {2}, {huge}, ErrorCode::InvalidModel, "reaches beyond its storage"},
      {6, 0, {huge, huge}, {0, 0}, ErrorCode::Unsupported, "expanded view"},
      {6, 0, {4, 3}, {0, 1}, ErrorCode::Unsupported, "expanded view"},
      {6, 0, {huge, huge, 0}, {0, 0, 0}, ErrorCode::Unsupported, "is empty"},
      {7, 0, {6}, {1}, ErrorCode::InvalidModel, "24 bytes, not 7 elements"},
      {5, 0, {5}, {1}, ErrorCode::InvalidModel, "24 bytes, not 5 elements"},
      {huge, 0, {6}, {1}, ErrorCode::InvalidModel, "24 bytes, not"},
      {-6, 0, {6}, {1}, ErrorCode::InvalidModel, "no size"},
      {6, -1, {6}, {1}, ErrorCode::InvalidModel, "no size"},
      {6, 0, {-6}, {1}, ErrorCode::InvalidModel, "no size"},
      {6, 0, {6}, {}, ErrorCode::InvalidModel, "strides"},
      {6, 0, {1, 1, 1, 1, 1, 1, 1, 1, 6}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, ErrorCode::InvalidModel, "short tuple"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.part);
    PickleWriter pickle;
    pickle.raw("}").text("x").tensor("FloatStorage", "0", c.size, c.offset, c.shape, c.strides).raw("s");
    expect_error(c.code, c.part, [&] { read(zip_of(pickle)); });
  }
  PickleWriter pickle;
  pickle.raw("}").text("x").tensor("FloatStorage", "9", 6, 0, {6}, {1}).raw("s");
  expect_error(ErrorCode::InvalidModel, "storage '9' is not in the zip", [&] { read(zip_of(pickle)); });
}

TEST(TorchZip, RefusesAStorageUsedTooOften) {
  // 400 tensors over one storage of 100,000 floats: 160 MB from a file of 0.5 MB.
  PickleWriter pickle;
  pickle.raw("}(");
  for (int i = 0; i < 400; ++i) pickle.text(std::to_string(i)).tensor("FloatStorage", "0", 100000, 0, {100000}, {1});
  pickle.raw("u");
  expect_error(ErrorCode::InvalidModel, "size bomb", [&] { read(zip_of(pickle, ByteVector(400000))); });
}

TEST(TorchZip, RefusesWhatIsNoStateDict) {
  const auto refused = [](const std::string& part, const std::function<void(PickleWriter&)>& write) {
    PickleWriter pickle;
    write(pickle);
    expect_error(ErrorCode::InvalidModel, part, [&] { read(zip_of(pickle)); });
  };
  refused("holds a int, not a state dict", [](PickleWriter& p) { p.integer(3); });
  refused("the state dict is empty", [](PickleWriter& p) { p.raw("}"); });
  refused("'lr' is a float",
          [](PickleWriter& p) { p.raw("}").text("lr").raw("G").raw(std::string(8, '\0')).raw("s"); });
  refused("key that is no text", [](PickleWriter& p) { p.raw("}").integer(1).integer(2).raw("s"); });
  refused("'x' is there twice", [](PickleWriter& p) {
    p.raw("}(");
    for (int i = 0; i < 2; ++i) p.text("x").tensor("FloatStorage", "0", 6, 0, {6}, {1});
    p.raw("u");
  });
}

TEST(TorchZip, RefusesOtherFiles) {
  PickleWriter pickle;
  pickle.raw("}").text("x").tensor("FloatStorage", "0", 6, 0, {6}, {1}).raw("s");
  const ByteVector body = pickle.finish();
  expect_error(ErrorCode::Unsupported, "byte order 'big'", [&] { read(make_torch_zip(body, {}, "big")); });
  EXPECT_NO_THROW(read(make_torch_zip(body, {float_bytes({1, 2, 3, 4, 5, 6})}, "")));
  expect_error(ErrorCode::InvalidModel, "without data.pkl", [] { read(make_zip({{"a", to_bytes("x")}})); });
  expect_error(ErrorCode::InvalidModel, "two files data.pkl", [] {
    read(make_zip({{"data.pkl", to_bytes("x")}, {"b/data.pkl", to_bytes("x")}}));
  });
  expect_error(ErrorCode::Unsupported, "TorchScript", [] {
    read(make_zip({{"m/data.pkl", to_bytes("x")}, {"m/constants.pkl", to_bytes("x")}}));
  });
  const ByteVector legacy = to_bytes(std::string_view("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15));
  expect_error(ErrorCode::Unsupported, "torch's old format", [&] { read(legacy); });
  EXPECT_TRUE(is_legacy_torch(bytes_of(legacy)));
  expect_error(ErrorCode::InvalidModel, "without end record", [] { read(to_bytes("PK\x03\x04 and no more")); });
}

TEST(TorchZip, RefusesTruncationAndNoticesDamage) {
  const std::vector<NamedFloats> tensors = {ramp("a.weight", {2, 2}), ramp("a.bias", {2})};
  const ByteVector file = make_torch_zip(tensors);
  expect_every_truncation_refused(file, read);
  // Whatever byte changes: what is read is right, or nothing is read.
  read_every_damage(file, [&](const ByteVector& damaged) {
    const StateDict state = read(damaged);
    for (const NamedFloats& tensor : tensors) {
      ASSERT_NE(state.find(tensor.name), nullptr);
      EXPECT_EQ(floats(state.find(tensor.name)), tensor.values);
    }
  });
}

Pickle parse(const ByteVector& pickle) { return read_pickle(bytes_of(pickle), "p"); }

TEST(PickleReader, RefusesTruncationAndSurvivesDamage) {
  PickleWriter pickle;
  pickle.raw("}(")
      .text("t")
      .tensor("FloatStorage", "0", 6, 0, {3, 2}, {1, 3})
      .text("u")
      .raw(
          "]q\x01(K\x01M\x02\x01"
          "e");
  const ByteVector file = pickle.text("v").raw("h\x01u").finish();
  ASSERT_NO_THROW(parse(file));
  expect_every_truncation_refused(file, parse);
  read_every_damage(file, parse);
}

TEST(PickleReader, RefusesBrokenPrograms) {
  const auto refused = [](const std::string& part, std::string_view opcodes) {
    expect_error(ErrorCode::InvalidModel, part, [&] { parse(PickleWriter().raw(opcodes).finish()); });
  };
  refused("empty stack", "0");
  refused("empty stack", "(0");
  refused("empty stack", "K\x01(\x85");
  refused("mark that is not there", "t");
  refused("odd number",
          "(K\x01"
          "d");
  refused("adds items to a int",
          "K\x01K\x02"
          "a");
  refused("never stored", "h\x07");
  refused("stack of more than its result", "K\x01K\x02");
  refused("stack of more than its result", "K\x01(");
  refused("no function", "K\x01)R");
  refused("opcode 73", "I1\n");
  refused("persistent id", "K\x01Q");
  refused("name of a global is no text", "K\x01K\x02\x93");
  refused("16777215 bytes expected", std::string_view("X\xff\xff\xff\x00", 5));
  expect_error(ErrorCode::InvalidModel, "protocol 6", [] { parse(PickleWriter(6).raw("N").finish()); });
  expect_error(ErrorCode::InvalidModel, "protocol number", [] { parse(to_bytes("N.")); });
}

TEST(PickleReader, HasLimits) {
  expect_error(ErrorCode::InvalidModel, "nested too deeply",
               [] { parse(PickleWriter().raw(std::string(5000, '(')).finish()); });
  expect_error(ErrorCode::InvalidModel, "too many values",
               [] { parse(PickleWriter().raw("(").raw(std::string(3 << 20, 'N')).finish()); });
  expect_error(ErrorCode::InvalidModel, "stack is too deep",
               [] { parse(PickleWriter().raw("N").raw(std::string(3 << 20, '2')).finish()); });
  expect_error(ErrorCode::InvalidModel, "pickle of", [] { parse(ByteVector(17 << 20)); });
  // A list of many references to one pair, given to OrderedDict again and again.
  PickleWriter pickle;
  pickle.raw("]q\x01(").text("a").raw("K\x01\x86q\x02").raw(std::string(600000, '2')).raw("e0");
  pickle.global("collections", "OrderedDict").raw("h\x01\x85R");
  expect_error(ErrorCode::InvalidModel, "OrderedDict with too many items", [&] { parse(pickle.finish()); });
}

}  // namespace
}  // namespace gyrus::test
