#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "gyrus/graph.h"

// Order and neighbourhood: sorting of any length, the nearest neighbours of points, and the weights that UMAP gives
// them. All of them are nodes of a graph.

namespace gyrus {

// Elements along an axis in their order, and their positions (i32). Of equal ones the lower position comes first, also
// where the largest come first; NaN is above all numbers, -0 equals 0. Gradients go through the values. Bytes and
// halves are sorted as i32 and f32.
struct Sorted {
  Value values, positions;
};
Sorted sort(Value x, int64_t axis = -1, bool descending = false);
// u32 keys [n] by their lowest `bits` alone.
Sorted sort_bits(Value keys, int64_t bits);
// `values`, of the shape of the keys, in the order of the keys along an axis.
Value sort_by(Value keys, Value values, int64_t axis = -1, bool descending = false);
// How many elements of a sorted list [n] are below each query (right: below or equal), i32.
Value search_sorted(Value list, Value queries, bool right = false);

enum class Metric : uint8_t { SquaredEuclid, Cosine };

// The k nearest of `points` [n,d], f32, for every row of `queries` [m,d], in order; of equal distances the lower index
// comes first. Without queries, for the points themselves, each of which is not its own neighbour. Cosine is 1 - cos; a
// point that is zero has distance 1 from all. Gradients go through the distances, to points and queries. Throws where k
// is not below n (with queries: above n).
struct Neighbours {
  Value indices;    // i32 [m,k]
  Value distances;  // f32 [m,k]
};
Neighbours nearest(Value points, int64_t k, Metric metric = Metric::SquaredEuclid);
Neighbours nearest(Value points, Value queries, int64_t k, Metric metric = Metric::SquaredEuclid);

// The weights of McInnes, Healy and Melville's "UMAP" (2018) for points and their k nearest neighbours, themselves left
// out: rho is the distance of the nearest that is not 0, sigma is such that the weights exp(-(distance - rho) / sigma)
// of a point sum up to log2(k + 1), found by bisection to the last digit, and at least a thousandth of the mean
// distance.
struct FuzzyGraph {
  Value rho, sigma;  // f32 [n]
  Value directed;    // f32 [n,k]: of a point for its neighbour
  Value weights;     // f32 [n,k]: w + v - w v, where v is what the neighbour has for the point, or 0
  // f32 [n,k]: `weights` shared out between the two places where a pair stands twice, so that the sum over all places
  // is that over all pairs.
  Value shares;
};
// `distances` f32 [n,k] (no squares) rise along a row.
FuzzyGraph fuzzy_graph(Value indices, Value distances);

}  // namespace gyrus
