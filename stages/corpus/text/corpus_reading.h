#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace troupe::stages {

/// What was found in the files of a corpus that hold records.
struct CorpusReading {
  std::map<std::string, std::int64_t, std::less<>> records;  ///< by their layout
  std::int64_t skipped = 0;                                  ///< lines that are no records
  std::string first_skipped;                                 ///< the first of them, and why

  /// What was found, for people, in lines; empty if all are of the plainest layout, "text".
  std::string sentences() const;
  /// How many lines were skipped, and why the first; empty for none.
  std::string skipped_sentence() const;
};

}  // namespace troupe::stages
