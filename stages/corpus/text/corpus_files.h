#pragma once

#include <string>

#include "stages/corpus/text/corpus_encoder.h"
#include "stages/corpus/text/loss_on.h"

namespace troupe::stages {

/// Hands a file to the encoder by its kind (file_kind). Each line of JSON lines is one document and
/// one sequence: its "text" (not with LossOn::response), its "prompt" and its "response", or its
/// "messages" as the chat template beside the encoder's tokenizer writes them. Any other file is
/// one document with a sequence for each piece. Throws Error{data} for a file that cannot be read,
/// or a line that is none of this, naming it. The encoder's options are warned of what is no UTF-8.
void add_file(const std::string& path, LossOn loss_on, CorpusEncoder& encoder);

}  // namespace troupe::stages
