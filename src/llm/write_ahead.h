#pragma once
#include <optional>
#include <utility>

#include "llm/writing.h"

namespace gyrus::llm {

// Writes the texts of `writing`. start(step) gives a step to the device and returns what is on its way: finish() of
// that waits and gives the tokens and, where they were asked for, the logits. The device has the next step before it
// gives the tokens of this one, so that it never waits for the host. One that was started in vain wrote only behind
// what its sequences hold. made(step) is called for every step that is done.
template <class Start, class Made>
void write_ahead(Writing& writing, const Start& start, const Made& made) {
  using Pending = decltype(start(std::declval<const WantedStep&>()));
  std::optional<WantedStep> foreseen;
  std::optional<Pending> ahead;
  while (const std::optional<WantedStep> step = writing.next()) {
    const bool right = foreseen && foretold(*foreseen, *step);
    Pending pending = right ? std::move(*ahead) : start(*step);
    ahead.reset();
    foreseen = writing.ahead();
    if (foreseen) ahead.emplace(start(*foreseen));
    const auto result = pending.finish();
    writing.take(result.tokens, step->logits ? result.logits.template as<float>() : nullptr);
    made(*step, right);
  }
}

}  // namespace gyrus::llm
