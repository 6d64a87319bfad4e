#include "stages/corpus/text/corpus_reading.h"

#include <fmt/format.h>

namespace troupe::stages {

std::string CorpusReading::sentences() const {
  std::string lines;
  if (records.size() > 1 || (records.size() == 1 && !records.contains("text")))
    for (const auto& [layout, count] : records)
      lines += fmt::format("{} {} read as {}\n", count, count == 1 ? "record is" : "records are",
                           layout);
  if (skipped > 0) lines += skipped_sentence() + '\n';
  return lines;
}

std::string CorpusReading::skipped_sentence() const {
  if (skipped == 0) return "";
  return skipped == 1 ? fmt::format("1 line is skipped: {}", first_skipped)
                      : fmt::format("{} lines are skipped, the first: {}", skipped, first_skipped);
}

}  // namespace troupe::stages
