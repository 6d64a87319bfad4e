#include "launch/commands/schedule_on_paper.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "launch/host/suggest.h"
#include "schedules/analysis/validate.h"
#include "schedules/generators/generators.h"
#include "schedules/plan/counted.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

constexpr std::string_view kCsv = "csv:";

const schedules::Generator& generator_of(const std::string& kind) {
  if (const auto* found = schedules::find_generator(kind)) return *found;
  std::vector<std::string_view> kinds;
  for (const auto& generator : schedules::generators()) kinds.push_back(generator.name);
  refuse(fmt::format("--kind {} is not a schedule; did you mean '{}'? It is csv:FILE or one of {}",
                     kind, nearest(kind, kinds), quoted_list(kinds)));
}

int given(const std::optional<int>& value, const char* name) {
  if (!value) refuse(fmt::format("{0} is missing; give the number of {1}", name, name + 2));
  return *value;
}

schedules::WholeCosts costs_of(const ScheduleOptions& options, int stages, int chunks) {
  auto parsed = schedules::parse_costs(options.costs, std::max(chunks, 1));
  if (const auto* wrong = std::get_if<std::string>(&parsed)) refuse("--costs: " + *wrong);
  auto whole = std::get<schedules::WholeCosts>(std::move(parsed));
  const auto num_costs = static_cast<int>(whole.costs.stages.size());
  if (num_costs > 1 && num_costs != stages)
    refuse(fmt::format("--costs has values for {}, but --stages is {}",
                       schedules::counted(static_cast<std::int64_t>(num_costs), "stage"), stages));
  if (options.blocking_sends) whole.costs.sends = schedules::Sends::blocking;
  if (options.no_barrier) whole.costs.barrier = schedules::Barrier::none;
  return whole;
}

void set_groups(schedules::ScheduleShape& shape, const std::string& text) {
  if (text.empty()) return;
  if (text == "rounds") {
    shape.grouping = schedules::Grouping::in_rounds;
    return;
  }
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), shape.group_size);
  if (error != std::errc() || end != text.data() + text.size() || shape.group_size < 1)
    refuse(fmt::format("--group-size {} is neither a number of at least 1 nor 'rounds'", text));
}

ScheduleOnPaper simulated(std::string kind, std::string_view source, int chunks,
                          schedules::Plan plan, const schedules::WholeCosts& whole) {
  const auto simulation = schedules::simulate(plan, whole.costs);
  if (!simulation) refuse(kind + " waits for ever: the parts of a pair wait for each other");
  return {.kind = std::move(kind),
          .chunks = chunks,
          .source = std::string(source),
          .plan = std::move(plan),
          .simulation = schedules::divided(*simulation, whole.units)};
}

/// Reads a plan file. Throws Error{data} if it is not a valid plan.
schedules::Plan read_plan(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path))
    throw Error(ErrorKind::data,
                fmt::format("{}: {}", path, stages::why_unreadable(path, "no such plan file")));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto parsed = schedules::parse_csv(text);
  if (const auto* error = std::get_if<schedules::PlanError>(&parsed))
    throw Error(ErrorKind::data,
                fmt::format("{}:{}:{}: {}", path, error->line, error->column, error->message));
  auto plan = std::get<schedules::Plan>(std::move(parsed));
  if (const auto broken =
          schedules::validate(schedules::in_order(plan), schedules::purpose_of(plan)))
    throw Error(ErrorKind::data, fmt::format("{}:{}: {} ({})\n{}", path, broken->rank + 1,
                                             broken->message, broken->rule, broken->grid));
  return plan;
}

ScheduleOnPaper from_file(const ScheduleOptions& options, const std::string& kind) {
  schedules::Plan plan = read_plan(kind.substr(kCsv.size()));
  const auto must_be = [&](const std::optional<int>& value, int actual, const char* name) {
    if (value && *value != actual)
      refuse(fmt::format("{} {}, but {} has {}", name, *value, kind, actual));
  };
  must_be(options.stages, plan.num_ranks(), "--stages");
  must_be(options.microbatches, plan.num_microbatches, "--microbatches");
  const int chunks = (plan.num_chunks() + plan.num_ranks() - 1) / plan.num_ranks();
  must_be(options.chunks, chunks, "--chunks");
  const auto costs = costs_of(options, plan.num_ranks(), chunks);
  return simulated(kind, "", chunks, std::move(plan), costs);
}

/// The arguments for a generator.
struct Request {
  schedules::ScheduleShape shape;
  schedules::WholeCosts whole;
};

Request request(const ScheduleOptions& options, int chunks) {
  Request out;
  out.shape.stages = given(options.stages, "--stages");
  out.shape.chunks = chunks;
  out.shape.microbatches = given(options.microbatches, "--microbatches");
  out.shape.memory = options.memory;
  set_groups(out.shape, options.group_size);
  out.whole = costs_of(options, out.shape.stages, chunks);
  out.shape.costs = out.whole.costs;
  return out;
}

ScheduleOnPaper generated(const schedules::Generator& generator, const Request& request) {
  return simulated(std::string(generator.name), generator.source, request.shape.chunks,
                   generator.generate(request.shape), request.whole);
}

/// Adds the generated schedule, with the requested number of chunks or else its default number, or
/// the reason why it can have neither.
void add_generated(Comparison& out, const ScheduleOptions& options,
                   const schedules::Generator& generator) {
  Request asked = request(options, options.chunks.value_or(generator.chunks));
  std::string wrong = generator.check(asked.shape);
  if (!wrong.empty() && asked.shape.chunks != generator.chunks) {
    asked = request(options, generator.chunks);
    wrong = generator.check(asked.shape);
  }
  if (wrong.empty())
    out.possible.push_back(generated(generator, asked));
  else
    out.impossible.push_back({.kind = std::string(generator.name), .why = wrong});
}

}  // namespace

ScheduleOnPaper on_paper(const ScheduleOptions& options, const std::string& kind) {
  if (kind.empty())
    refuse("--kind is missing; give a schedule's name, csv:FILE, or --compare with some names");
  if (kind.starts_with(kCsv)) return from_file(options, kind);
  const schedules::Generator& generator = generator_of(kind);
  const Request asked = request(options, options.chunks.value_or(generator.chunks));
  const std::string wrong = generator.check(asked.shape);
  if (!wrong.empty()) refuse(wrong);
  return generated(generator, asked);
}

Comparison compare(const ScheduleOptions& options) {
  Comparison out;
  for (const std::string& kind : options.compare) {
    if (kind.starts_with(kCsv))
      out.possible.push_back(from_file(options, kind));
    else
      add_generated(out, options, generator_of(kind));
  }
  std::ranges::stable_sort(out.possible, {}, [](const auto& s) { return s.simulation.step; });
  return out;
}

}  // namespace troupe::launch
