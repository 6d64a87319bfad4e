#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>
#include <type_traits>

#include "launch/commands/options.h"

// What the sources that describe the command line share.

namespace troupe::launch {

inline constexpr const char* kExitCodes =
    "Exit codes: 0 done, 64 usage, 65 bad data, 69 unavailable, 70 the run failed, 75 stopped half "
    "way, 78 bad manifest.";

/// A subcommand, with lines of examples for its help. The app owns it.
inline CLI::App* command(CLI::App& app, const char* name, const char* what, const char* examples) {
  CLI::App* sub = app.add_subcommand(name, what);
  sub->footer(fmt::format("Examples:\n{}\n{}", examples, kExitCodes));
  return sub;
}

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

/// Adds an option, or an argument, that must be given.
template <typename T>
CLI::Option* required(CLI::App* sub, const char* name, T& value, const char* type,
                      const char* what) {
  return sub->add_option(name, value, what)->required()->type_name(type);
}
/// Adds an option for a number from `low` to `high`. The help shows its default, if it has one.
template <typename T, typename Limit>
CLI::Option* number(CLI::App* sub, const char* name, T& value, Limit low, Limit high,
                    const char* what) {
  CLI::Option* option = sub->add_option(name, value, what)->check(number_between(low, high));
  return std::is_arithmetic_v<T> ? option->capture_default_str() : option;
}

// One for each command, with its options, which outlive the parsing.

void add_plan(CLI::App& app, PlanOptions& o);
void add_measure(CLI::App& app, MeasureOptions& o);
void add_launch(CLI::App& app, LaunchOptions& o);
void add_doctor(CLI::App& app, DoctorOptions& o);
void add_join(CLI::App& app, JoinOptions& o);
void add_hosts(CLI::App& app, HostsOptions& o);
void add_status(CLI::App& app, StatusOptions& o);
void add_runs(CLI::App& app, RunsOptions& o);
void add_attach(CLI::App& app, AttachOptions& o);
void add_report(CLI::App& app, ReportOptions& o);
void add_trace(CLI::App& app, TraceOptions& o);
void add_tap(CLI::App& app, TapOptions& o);
void add_scale(CLI::App& app, ScaleOptions& o);
void add_checkpoint(CLI::App& app, CheckpointOptions& o);
void add_stop(CLI::App& app, StopOptions& o);
void add_collectives(CLI::App& app, CollectivesOptions& o);
void add_generate(CLI::App& app, GenerateOptions& o);
void add_eval(CLI::App& app, EvalOptions& o);
void add_logits(CLI::App& app, LogitsOptions& o);
void add_import(CLI::App& app, ImportOptions& o);
void add_export(CLI::App& app, ExportOptions& o);
void add_tokenize(CLI::App& app, TokenizeOptions& o);
void add_schedule(CLI::App& app, ScheduleOptions& o);

}  // namespace troupe::launch
