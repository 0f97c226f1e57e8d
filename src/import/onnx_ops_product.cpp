// Products of matrices.

#include <algorithm>
#include <cmath>

#include "import/onnx_ops.h"

namespace gyrus::onnx {
namespace {

// Products of whole numbers are exact where each is made: devices have matrices of floats only.
Val product_of(Val a, Val b, bool ta, bool tb) {
  if (is_float(a)) return matmul(a, b, ta, tb);
  if (ta) a = swap_axes(a, a.rank() - 2, a.rank() - 1);
  if (!tb) b = swap_axes(b, b.rank() - 2, b.rank() - 1);
  if (a.extent(-1) != b.extent(-1))
    invalid(cat("multiplies ", gyrus::to_string(a.shape()), " by ", gyrus::to_string(b.shape()), ", transposed"));
  const Val all = unsqueeze(a, a.rank() - 1) * unsqueeze(b, b.rank() - 2);
  constexpr int64_t kMost = int64_t{1} << 26;
  if (all.size() > kMost) unsupported(cat("a product of whole numbers with ", all.size(), " terms"));
  return reduce("reduce_sum", all, {static_cast<int64_t>(all.rank()) - 1}, false);
}

bool is_single(Val x) { return x.elem == Elem::F32; }

Vals matmul_node(Ctx& c) {
  Val a = c.in(0), b = c.in(1);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (a.rank() == 0 || b.rank() == 0) invalid("takes no scalars");
  if (row) a = unsqueeze(a, 0);
  if (column) b = unsqueeze(b, 1);
  const auto packed = is_single(a) ? c.packed(1, 1) : std::nullopt;
  Val y = packed ? packed_product(a, *packed) : product_of(a, b, false, false);
  if (column) y = squeeze(y, y.rank() - 1);
  if (row) y = squeeze(y, y.rank() - (column ? 1 : 2));
  return {y};
}

Vals gemm(Ctx& c) {
  const bool ta = c.integer("transA", 0) != 0, tb = c.integer("transB", 0) != 0;
  const double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  if (!is_float(c.in(0)) && (alpha != std::floor(alpha) || beta != std::floor(beta)))
    unsupported("fractions of whole numbers");
  Val y;
  if (const auto packed = is_single(c.in(0)) ? c.packed(1, tb ? 0 : 1) : std::nullopt) {
    const Val x = ta ? swap_axes(c.in(0), 0, 1) : c.in(0), bias = c.opt(2);
    if (bias && alpha == 1 && beta == 1 && bias.rank() == 1 && bias.size() == packed->matrix.rows)
      return {packed_product(x, *packed, bias)};
    y = packed_product(x, *packed) * alpha;
  } else {
    y = product_of(c.in(0), c.in(1), ta, tb) * alpha;
  }
  if (c.has(2) && beta != 0) y = y + c.in(2) * beta;
  return {y};
}

// An operand of an einsum: one letter for each axis.
struct Labelled {
  Val x;
  std::string letters;
};

void expect(bool good, const char* what) {
  if (!good) invalid(cat("equation: ", what));
}

// Axes with the same letter become one: their diagonal.
Labelled diagonal(Labelled t) {
  for (size_t i = 0; i < t.letters.size(); ++i) {
    const size_t j = t.letters.find(t.letters[i], i + 1);
    if (j == std::string::npos) continue;
    Ints perm;
    for (size_t a = 0; a < t.letters.size(); ++a)
      if (a != i && a != j) perm.push_back(static_cast<int64_t>(a));
    perm.push_back(static_cast<int64_t>(i));
    perm.push_back(static_cast<int64_t>(j));
    Val x = transpose(t.x, perm);
    const int64_t n = x.extent(-1);
    expect(x.extent(-2) == n, "a letter stands for two extents");
    Shape flat(x.shape());
    flat.resize(flat.size() - 2);
    flat.push_back(n * n);
    x = slice(reshape(x, flat), flat.size() - 1, 0, n * n, n + 1);
    const char letter = t.letters[i];
    t.letters.erase(j, 1);
    t.letters.erase(i, 1);
    t.letters += letter;
    t.x = x;
    i = static_cast<size_t>(-1);
  }
  return t;
}

Labelled permuted(const Labelled& t, const std::string& letters) {
  Ints perm;
  for (const char letter : letters) perm.push_back(static_cast<int64_t>(t.letters.find(letter)));
  return {transpose(t.x, perm), letters};
}

Labelled summed(const Labelled& t, const std::string& keep) {
  Ints axes;
  Labelled result{t.x, {}};
  for (size_t a = 0; a < t.letters.size(); ++a) {
    if (keep.find(t.letters[a]) == std::string::npos)
      axes.push_back(static_cast<int64_t>(a));
    else
      result.letters += t.letters[a];
  }
  result.x = reduce("reduce_sum", t.x, axes, false);
  return result;
}

Labelled product(const Labelled& a, const Labelled& b, const std::string& keep) {
  std::string batch, inner, left, right;
  for (const char letter : a.letters) {
    if (b.letters.find(letter) == std::string::npos)
      left += letter;
    else if (keep.find(letter) == std::string::npos)
      inner += letter;
    else
      batch += letter;
  }
  for (const char letter : b.letters)
    if (a.letters.find(letter) == std::string::npos) right += letter;
  const auto extents = [](const Labelled& t, const std::string& letters) {
    Shape shape;
    for (const char letter : letters) shape.push_back(t.x.shape()[t.letters.find(letter)]);
    return shape;
  };
  const auto joined = [](Shape shape, int64_t m, int64_t n) {
    shape.push_back(m);
    shape.push_back(n);
    return shape;
  };
  const Shape la = extents(a, left), rb = extents(b, right), ka = extents(a, inner);
  expect(ka == extents(b, inner), "a letter stands for two extents");
  const int64_t m = element_count(la), n = element_count(rb), k = element_count(ka);
  const Val x = reshape(permuted(a, batch + left + inner).x, joined(extents(a, batch), m, k));
  const Val y = reshape(permuted(b, batch + inner + right).x, joined(extents(b, batch), k, n));
  const Val z = product_of(x, y, false, false);
  Shape shape = z.shape();
  shape.resize(shape.size() - 2);
  shape.insert(shape.end(), la.begin(), la.end());
  shape.insert(shape.end(), rb.begin(), rb.end());
  return {reshape(z, shape), batch + left + right};
}

Vals einsum(Ctx& c) {
  std::string equation = c.text("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const size_t arrow = equation.find("->");
  const std::string from = equation.substr(0, arrow);
  // What an ellipsis stands for becomes digits, the last axis '0'.
  std::vector<Labelled> terms;
  size_t begin = 0, ellipsis = 0;
  for (size_t i = 0; i < c.inputs(); ++i) {
    expect(begin <= from.size(), "fewer terms than operands");
    const size_t end = std::min(from.find(',', begin), from.size());
    std::string letters = from.substr(begin, end - begin);
    const Val x = c.in(i);
    if (const size_t dots = letters.find("..."); dots != std::string::npos) {
      expect(x.rank() + 3 >= letters.size() && x.rank() - (letters.size() - 3) < 10,
             "a term does not suit its operand");
      const size_t more = x.rank() - (letters.size() - 3);
      std::string digits;
      for (size_t k = more; k-- > 0;) digits += static_cast<char>('0' + k);
      letters.replace(dots, 3, digits);
      ellipsis = std::max(ellipsis, more);
    }
    expect(letters.size() == x.rank(), "a term does not suit its operand");
    terms.push_back(diagonal({x, letters}));
    begin = end + 1;
  }
  expect(begin > from.size(), "more terms than operands");
  std::string digits;
  for (size_t k = ellipsis; k-- > 0;) digits += static_cast<char>('0' + k);
  std::string to;
  if (arrow != std::string::npos) {
    to = equation.substr(arrow + 2);
    if (const size_t dots = to.find("..."); dots != std::string::npos) to.replace(dots, 3, digits);
  } else {
    to = digits;
    for (char letter = 'A'; letter <= 'z'; ++letter)
      if (std::count(from.begin(), from.end(), letter) == 1) to += letter;
  }
  // A letter that only one term has and the result has not is summed at once.
  for (size_t i = 0; i < terms.size(); ++i) {
    std::string keep = to;
    for (size_t j = 0; j < terms.size(); ++j)
      if (j != i) keep += terms[j].letters;
    terms[i] = summed(terms[i], keep);
  }
  Labelled result = terms.at(0);
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string keep = to;
    for (size_t j = i + 1; j < terms.size(); ++j) keep += terms[j].letters;
    result = product(result, terms[i], keep);
  }
  expect(result.letters.size() == to.size(), "the result has letters that no term has");
  return {permuted(result, to).x};
}

// By cofactors of the first row.
Val determinant(Val x) {
  const size_t row = x.rank() - 2, column = x.rank() - 1;
  const int64_t n = x.shape()[column];
  if (n == 1) return squeeze(squeeze(x, column), row);
  Val sum;
  const Val rest = slice(x, row, 1, n);
  for (int64_t j = 0; j < n; ++j) {
    Vals parts;
    if (j > 0) parts.push_back(slice(rest, column, 0, j));
    if (j + 1 < n) parts.push_back(slice(rest, column, j + 1, n));
    const Val first = squeeze(squeeze(slice(slice(x, row, 0, 1), column, j, j + 1), column), row);
    const Val term = first * determinant(concat(parts, column));
    sum = !sum ? term : j % 2 == 0 ? sum + term : sum - term;
  }
  return sum;
}

Vals det(Ctx& c) {
  const Val x = c.in(0);
  if (x.rank() < 2 || x.extent(-1) != x.extent(-2)) invalid("takes square matrices");
  if (x.extent(-1) > 5 || x.extent(-1) < 1) unsupported("determinants of more than 5 rows");
  return {determinant(x)};
}

}  // namespace

void add_product_ops(OpTable& t) {
  t["MatMul"] = matmul_node;
  t["Gemm"] = gemm;
  t["Einsum"] = einsum;
  t["Det"] = det;
}

}  // namespace gyrus::onnx
