#include <utility>

#include "actors/director/director.h"

// Orders to the director from outside the run, and their answers.

namespace troupe::actors {
namespace {

constexpr const char* kInAnswer = "\n";

}  // namespace

void Director::ordered(const ScaleOrder& order) {
  const std::uint64_t number = next_order_++;
  scale_orders_[number] = order;
  change_ = {};
  handle(ScaleOrdered{.order = number, .request = order.request});
}

void Director::ordered(const SaveOrder& order) {
  const std::uint64_t number = next_order_++;
  save_orders_[number] = order;
  handle(SaveOrdered{.order = number});
}

void Director::perform(const AnswerScale& effect) {
  const auto order = scale_orders_.extract(effect.order);
  if (order.empty()) return;
  if (effect.refused.empty())
    order.mapped().answer({.code = 0,
                           .text = change_.order.empty() ? "done, and no step had to wait for it"
                                                         : to_string(change_, kInAnswer)});
  else
    order.mapped().answer({.code = static_cast<int>(effect.kind), .text = effect.refused});
}

void Director::perform(const AnswerSave& effect) {
  const auto order = save_orders_.extract(effect.order);
  if (order.empty()) return;
  const int code = effect.refused.empty() ? 0 : static_cast<int>(effect.kind);
  order.mapped().answer({.code = code, .step = effect.step, .text = effect.refused});
}

}  // namespace troupe::actors
