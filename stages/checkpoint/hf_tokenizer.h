#pragma once

#include <map>
#include <string>

namespace troupe::stages {

/// The tokenizer's files of a checkpoint, by name: what transformers' AutoTokenizer needs to give a
/// text the ids that training gave it, without any added at its ends. For "bytes" that is a
/// tokenizer.json. For a SentencePiece model these are copies of it as tokenizer.model, which
/// Troupe reads, and as spiece.model, which is the name that the class of transformers asks for
/// which hands a text to the library unchanged. Throws Error{data} as Tokenizer::open does.
std::map<std::string, std::string> hf_tokenizer_files(const std::string& tokenizer);

}  // namespace troupe::stages
