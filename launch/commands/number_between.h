#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>
#include <type_traits>

namespace troupe::launch {

/// The upper end of options that have no other limit.
inline constexpr int kMost = 1'000'000'000;

/// Accepts numbers from `low` to `high` in plain decimal digits. CLI11's own check reads 010 as
/// octal, wraps negative numbers around, and accepts NaN in any range.
template <typename T>
CLI::Validator number_between(T low, T high) {
  return {
      [low, high](const std::string& text) {
        T value{};
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool octal = std::is_integral_v<T> && text.size() > 1 && text[text[0] == '-'] == '0';
        if (error == std::errc() && end == text.data() + text.size() && !octal && value >= low &&
            value <= high)
          return std::string();
        return fmt::format("{} is not a {} from {} to {}", text,
                           std::is_integral_v<T> ? "whole number" : "number", low, high);
      },
      high < kMost ? fmt::format("in [{} - {}]", low, high) : ""};
}

}  // namespace troupe::launch
