#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace troupe::stages {

/// The tokenizer's files of a checkpoint, by name: what transformers' AutoTokenizer needs to give a
/// text the ids that training gave it. For "bytes" that is a tokenizer.json. For a SentencePiece
/// model these are copies of it as tokenizer.model, which Troupe reads, and as spiece.model, which
/// is the name that the class of transformers asks for which hands a text to the library unchanged.
/// Other files are copied. So are the files beside that tell of the tokenizer's tokens and of
/// conversations. Throws Error{data} as Tokenizer::open does.
std::map<std::string, std::string> hf_tokenizer_files(const std::string& tokenizer);

/// The files of a checkpoint that are copies of what lies beside the tokenizer.
std::map<std::string, std::string> copies_beside(const std::string& tokenizer);

/// Which of these files holds the tokenizer.
std::string tokenizer_file(const std::string& tokenizer);

/// What to pass to Tokenizer::open for a model's directory: its tokenizer.json or tokenizer.model,
/// or else a tekken.json, a file of tiktoken, or a vocab.json; "bytes" if that is what
/// hf_tokenizer_files() makes of "bytes"; empty if there is no file of a tokenizer. `trained_with`,
/// which a checkpoint records, decides where there are several.
std::string tokenizer_in(const std::filesystem::path& dir, const std::string& trained_with = "");

/// What tokenizer_in() says, or "bytes" for a model of so few tokens without a tokenizer.
std::string tokenizer_or_bytes(const std::filesystem::path& dir, std::int64_t vocab_size,
                               const std::string& trained_with = "");

/// A sentence on how a tokenizer is read, where versions of transformers differ, or why it cannot
/// be; else empty.
std::string about_tokenizer(const std::string& tokenizer);

}  // namespace troupe::stages
