#pragma once

#include <string>

#include "stages/data/corpus_encoder.h"

namespace troupe::stages {

/// Hands a file to the encoder by its format. The "text" of each line of a .jsonl file is one
/// document and one sequence; any other file is one document with a sequence for each piece. Throws
/// Error{data} for a file that cannot be read, or a line without a "text", naming it.
void add_file(const std::string& path, CorpusEncoder& encoder);

}  // namespace troupe::stages
