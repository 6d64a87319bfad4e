#include "launch/web/advisor.h"

#include "launch/report/layout_advice.h"
#include "tensor/error.h"

namespace troupe::launch {

std::string Advisor::advice(const std::string& shape, const StepPicture& picture) {
  if (!spec_) return "";
  const auto now = std::chrono::steady_clock::now();
  if (made_ && shape == shape_ && now - *made_ < kPeriod) return advice_;
  shape_ = shape;
  made_ = now;
  try {
    advice_ = layout_advice(picture, spec_());
  } catch (const Error&) {
    advice_.clear();
  }
  return advice_;
}

}  // namespace troupe::launch
