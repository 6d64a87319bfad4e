#pragma once

#include <map>
#include <string>

namespace troupe::stages {

/// The tokenizer's files of a checkpoint, by name: what transformers' AutoTokenizer needs to give a
/// text the ids that training gave it, without any added at its ends. Of "bytes" a tokenizer.json;
/// of a SentencePiece model its copies as tokenizer.model, which Troupe reads, and spiece.model, as
/// the class is called with that hands a text to the library as it is. Throws Error{data} as
/// Tokenizer::open.
std::map<std::string, std::string> hf_tokenizer_files(const std::string& tokenizer);

}  // namespace troupe::stages
