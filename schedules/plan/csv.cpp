#include <algorithm>
#include <limits>

#include "schedules/plan/counted.h"
#include "schedules/plan/plan.h"

namespace troupe::schedules {
namespace {

struct Cell {
  std::string_view text;  ///< without the spaces around it
  int line = 0;
  int column = 0;
};

constexpr std::string_view kSpaces = " \t\r";

/// The non-empty cells, line by line. Lines after the last one with a cell are left out.
std::vector<std::vector<Cell>> split(std::string_view text) {
  std::vector<std::vector<Cell>> lines(1);
  std::size_t line_start = 0;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(",\n", start), text.size());
    std::string_view cell = text.substr(start, end - start);
    const std::size_t first = std::min(cell.find_first_not_of(kSpaces), cell.size());
    cell = cell.substr(first, cell.find_last_not_of(kSpaces) + 1 - first);
    if (!cell.empty()) {
      lines.back().push_back({.text = cell,
                              .line = static_cast<int>(lines.size()),
                              .column = static_cast<int>(start + first - line_start) + 1});
    }
    if (end < text.size() && text[end] == '\n') {
      lines.emplace_back();
      line_start = end + 1;
    }
    start = end + 1;
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

/// What the parser has learned about one chunk, and the cell that an error names.
struct Seen {
  int rank = -1;
  Cell first;
  int lowest = 0;   ///< microbatch
  int highest = 0;  ///< microbatch
};

/// Reads one cell after the other, and remembers what the whole plan must agree on.
class Reader {
 public:
  explicit Reader(int num_actions) : num_actions_(num_actions), chunks_(num_actions) {}

  /// Reads a cell. Returns an empty text if it is an action that fits, else the reason why it does
  /// not.
  std::string read(const Cell& cell, int rank, Plan& plan) {
    if (cell.text.starts_with('(')) return read_pair(cell, rank, plan);
    const std::optional<Action> action = parse_action(cell.text);
    if (!action) {
      return "\"" + shown(cell.text) +
             "\" is no action; an action is written chunk, F, B, I or W, microbatch: 0F0";
    }
    return add(*action, cell, rank, plan);
  }

  /// Fills plan.rank_of_chunk and num_copies; an error if the chunks leave a gap.
  std::optional<PlanError> finish(Plan& plan) const {
    for (int chunk = 0; chunk < num_chunks_; ++chunk) {
      if (chunks_[chunk].rank < 0) {
        const Cell& blamed = chunks_[num_chunks_ - 1].first;
        return PlanError{
            .line = blamed.line,
            .column = blamed.column,
            .message = concat("there is a chunk ", num_chunks_ - 1, ", but no action of chunk ",
                              chunk, "; chunks count from 0 without a gap")};
      }
      plan.rank_of_chunk.push_back(chunks_[chunk].rank);
    }
    if (has_two_copies(plan)) plan.num_copies = 2;
    return {};
  }

 private:
  /// "(0F3;3B1)", after which PyTorch writes OVERLAP_F_B.
  std::string read_pair(const Cell& cell, int rank, Plan& plan) {
    constexpr std::string_view kName = "OVERLAP_F_B";
    std::string_view text = cell.text.substr(1);
    if (text.ends_with(kName)) text.remove_suffix(kName.size());
    const std::size_t middle = text.find(';');
    const bool closed = middle != std::string_view::npos && text.ends_with(')');
    auto first = parse_action(closed ? text.substr(0, middle) : "");
    const auto second =
        parse_action(closed ? text.substr(middle + 1, text.size() - middle - 2) : "");
    if (!first || !second || first->op != Op::F || (second->op != Op::B && second->op != Op::I) ||
        first->microbatch == second->microbatch) {
      return "\"" + shown(cell.text) +
             "\" is no pair; a pair is an F and a B or I of another microbatch: (0F3;3B1)";
    }
    first->overlaps_next = true;
    const std::string wrong = add(*first, cell, rank, plan);
    return wrong.empty() ? add(*second, cell, rank, plan) : wrong;
  }

  std::string add(const Action& action, const Cell& cell, int rank, Plan& plan) {
    // Each chunk and each microbatch needs an action, so higher numbers leave gaps; refusing them
    // here keeps what is allocated below in proportion to the text.
    if (action.chunk >= num_actions_ || action.microbatch >= num_actions_) {
      return concat(to_string(action), " has a number too high for a plan of ", num_actions_,
                    " actions: chunks and microbatches count from 0");
    }
    Seen& seen = chunks_[action.chunk];
    if (seen.rank < 0) seen = {.rank = rank, .first = cell, .lowest = action.microbatch};
    if (seen.rank != rank) {
      return concat(to_string(action), " puts chunk ", action.chunk, " on rank ", rank,
                    ", but line ", seen.first.line, " has it on rank ", seen.rank,
                    "; a chunk lives on one rank");
    }
    seen.lowest = std::min(seen.lowest, action.microbatch);
    seen.highest = std::max(seen.highest, action.microbatch);
    plan.num_microbatches = std::max(plan.num_microbatches, action.microbatch + 1);
    num_chunks_ = std::max(num_chunks_, action.chunk + 1);
    plan.actions[rank].push_back(action);
    return {};
  }

  /// Whether the upper half of the chunks has only the upper half of the microbatches, and the
  /// lower half only the lower, which is never so in a plan of one copy.
  bool has_two_copies(const Plan& plan) const {
    if (num_chunks_ % 2 != 0 || plan.num_microbatches % 2 != 0) return false;
    const int half = plan.num_microbatches / 2;
    for (int chunk = 0; chunk < num_chunks_; ++chunk) {
      const bool upper = chunk >= num_chunks_ / 2;
      if (upper ? chunks_[chunk].lowest < half : chunks_[chunk].highest >= half) return false;
    }
    return true;
  }

  /// The cell's text, short and printable.
  static std::string shown(std::string_view text) {
    constexpr std::size_t kShown = 24;
    std::string out(text.substr(0, kShown));
    for (char& letter : out) {
      if (letter < ' ' || letter > '~') letter = '?';
    }
    return text.size() > kShown ? out + "..." : out;
  }

  int num_actions_;
  int num_chunks_ = 0;
  std::vector<Seen> chunks_;
};

/// The text of an action or of a pair.
std::string cell(const std::vector<Action>& order, std::size_t i) {
  if (!order[i].overlaps_next || i + 1 == order.size()) return to_string(order[i]);
  return "(" + to_string(order[i]) + ";" + to_string(order[i + 1]) + ")";
}

}  // namespace

std::string to_csv(const Plan& plan) {
  std::string text;
  for (const std::vector<Action>& order : plan.actions) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) text += ',';
      text += cell(order, i);
      if (order[i].overlaps_next) ++i;
    }
    text += '\n';
  }
  return text;
}

std::variant<Plan, PlanError> parse_csv(std::string_view text) {
  const std::vector<std::vector<Cell>> lines = split(text);
  std::size_t num_actions = 0;
  for (const std::vector<Cell>& line : lines) {
    for (const Cell& cell : line) num_actions += cell.text.starts_with('(') ? 2 : 1;
  }
  if (num_actions == 0)
    return PlanError{.line = 1, .column = 1, .message = "the plan has no action"};

  Plan plan{.kind = "csv", .num_microbatches = 0, .rank_of_chunk = {}, .actions = {}};
  plan.actions.resize(lines.size());
  Reader reader(static_cast<int>(num_actions));
  for (const std::vector<Cell>& line : lines) {
    for (const Cell& cell : line) {
      const std::string wrong = reader.read(cell, cell.line - 1, plan);
      if (!wrong.empty()) {
        return PlanError{.line = cell.line, .column = cell.column, .message = wrong};
      }
    }
  }
  if (const std::optional<PlanError> gap = reader.finish(plan)) return *gap;
  return plan;
}

}  // namespace troupe::schedules
