#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <tuple>

#include "schedules/analysis/costs.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {
namespace {

constexpr int kMostDecimals = 9;
/// Largest cost in units: sums of a million such costs are still exact in a double.
constexpr double kMostUnits = 9e9;

struct Field {
  std::string_view name;
  std::vector<double> values = {};
};

/// Names of costs that are the same for all stages.
constexpr std::array<std::string_view, 5> kSingle = {"hop", "link", "optimizer", "units", "ahead"};

std::vector<Field> all_fields() {
  std::vector<Field> fields;
  StageCosts().for_each([&](std::string_view name, const auto&) { fields.push_back({name}); });
  for (const std::string_view name : kSingle) fields.push_back({name});
  return fields;
}

/// Takes the text up to `separator` from the front of `text`.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

/// Digits after the point that a number needs to be written exactly; more than are allowed if it is
/// written with a power of ten.
int decimals(std::string_view number) {
  if (number.find_first_of("eE") != std::string_view::npos) return kMostDecimals + 1;
  const std::size_t point = number.find('.');
  return point == std::string_view::npos ? 0 : static_cast<int>(number.size() - point - 1);
}

/// Reads the fields one by one.
class CostReader {
 public:
  /// Reads all fields. Returns an empty text, or why they cannot be read.
  std::string read(std::string_view text) {
    while (!text.empty()) {
      const std::string_view part = take(text, ',');
      std::string_view values = part;
      const std::string_view name = take(values, '=');
      const auto field = std::ranges::find(fields_, name, &Field::name);
      if (field == fields_.end()) {
        return concat("'", name,
                      "' is no cost; costs are F, I, W, B, cF, cI, cW, cB, gF, gB, units, ahead, "
                      "pair, hop, link and optimizer, as in F=1,I=1,W=1,hop=0");
      }
      if (!field->values.empty()) return concat(name, " is given twice");
      const std::string wrong = read_values(*field, values);
      if (!wrong.empty()) return wrong;
    }
    for (const std::string_view name : {"F", "I", "W"}) {
      if (values(name).empty()) {
        return concat(name, " is missing; give F, I and W, as in F=1,I=1,W=1,hop=0");
      }
    }
    return {};
  }

  const std::vector<double>& values(std::string_view name) const {
    return std::ranges::find(fields_, name, &Field::name)->values;
  }
  /// Number of parts into which one unit of the text must be cut for whole costs of a chunk; 1 if
  /// that is too many.
  double units(int chunks) const {
    const double units = std::pow(10, decimals_) * chunks;
    return decimals_ <= kMostDecimals && most_ * units <= kMostUnits ? units : 1;
  }

 private:
  std::string read_values(Field& field, std::string_view text) {
    do {
      const std::string_view number = take(text, ':');
      double value = 0;
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), value);
      if (error != std::errc() || end != number.data() + number.size() || !(value >= 0) ||
          std::isinf(value)) {
        return concat(field.name, "=", number,
                      " is no duration; give a number of at least 0, as in ", field.name, "=1.5");
      }
      field.values.push_back(value);
      decimals_ = std::max(decimals_, decimals(number));
      most_ = std::max(most_, value);
    } while (!text.empty());
    return {};
  }

  std::vector<Field> fields_ = all_fields();
  int decimals_ = 0;
  double most_ = 0;
};

constexpr int kMostParts = 10'000;  // of a chunk

/// The costs of each stage, as many as the longest list has.
class StageList {
 public:
  StageList(const CostReader& reader, double units) : reader_(reader), units_(units) {
    StageCosts().for_each([this](std::string_view name, const auto&) {
      size_ = std::max(size_, reader_.values(name).size());
    });
  }

  /// Returns an empty text, or why the lists do not fit together.
  std::string check() const {
    std::string wrong;
    StageCosts().for_each([&](std::string_view name, const auto&) {
      const std::size_t size = reader_.values(name).size();
      if (size <= 1 || size == size_ || !wrong.empty()) return;
      wrong = concat(name, " has ", counted(static_cast<std::int64_t>(size), "stage"),
                     ", but another cost has ", size_,
                     "; give one value for all stages, or one for each");
    });
    return wrong;
  }

  std::vector<StageCosts> stages() const {
    std::vector<StageCosts> out(size_);
    for (std::size_t stage = 0; stage < size_; ++stage)
      out[stage].for_each([&](std::string_view name, auto& cost) {
        if (const std::optional<double> given = at(name, stage)) cost = *given;
      });
    return out;
  }
  double single(std::string_view name) const { return at(name, 0).value_or(0); }

 private:
  std::optional<double> at(std::string_view name, std::size_t stage) const {
    const std::vector<double>& values = reader_.values(name);
    if (values.empty()) return {};
    const double value = values[values.size() == 1 ? 0 : stage] * units_;
    return units_ > 1 ? std::round(value) : value;
  }

  const CostReader& reader_;
  double units_;
  std::size_t size_ = 1;
};

}  // namespace

std::variant<WholeCosts, std::string> parse_costs(std::string_view text, int chunks) {
  CostReader reader;
  std::string wrong = reader.read(text);
  if (!wrong.empty()) return wrong;
  for (const std::string_view name : kSingle) {
    if (reader.values(name).size() > 1) {
      return concat(name, " has one value for all stages, not ", reader.values(name).size());
    }
  }
  Gathering gathering;
  for (const auto& [name, least, number] :
       {std::tuple{"units", 1, &gathering.units}, std::tuple{"ahead", 0, &gathering.ahead}}) {
    if (reader.values(name).empty()) continue;
    const double value = reader.values(name).front();
    if (value != std::floor(value) || value < least || value > kMostParts) {
      return concat(name, " is a whole number from ", least, " to ", kMostParts);
    }
    *number = static_cast<int>(value);
  }
  const double units = reader.units(chunks * gathering.units);
  const StageList list(reader, units);
  wrong = list.check();
  if (!wrong.empty()) return wrong;
  return WholeCosts{.costs = {.stages = list.stages(),
                              .hop = list.single("hop"),
                              .link = list.single("link"),
                              .optimizer = list.single("optimizer"),
                              .gathering = gathering},
                    .units = units};
}

}  // namespace troupe::schedules
