#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/normalizer.h"

namespace troupe::stages {

/// A token that is found in a text before the model sees it.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  ///< not found within a word
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space after it
  bool normalized = false;   ///< found in the normalized text, else in the text as it is
  bool special = false;      ///< has no text when ids are decoded
};

/// A part of a text: an added token, or text between two.
struct Section {
  std::string_view text;
  std::optional<std::int32_t> token;
};

/// Finds added tokens in texts. Const calls may run in any thread.
class AddedTokens {
 public:
  /// A normalized token is found by its own content as the normalizer leaves it.
  AddedTokens(const std::vector<AddedToken>& tokens, const Normalizer& normalizer);

  /// The sections of a text as it is, and of one that was normalized. None is empty.
  std::vector<Section> split(std::string_view text) const { return raw_.split(text); }
  std::vector<Section> split_normalized(std::string_view text) const {
    return normalized_.split(text);
  }
  /// Whether tokens are found in the parts of a text that is cut at lone newlines (Cuts) as in the
  /// whole.
  bool allows_cuts() const { return raw_.allows_cuts() && normalized_.allows_cuts(); }
  /// Whether that holds where a text is cut before words, too.
  bool allows_word_cuts() const {
    return raw_.allows_word_cuts() && normalized_.allows_word_cuts();
  }
  /// Bytes of the longest token that is found in a text as it is, and in one that was normalized.
  std::size_t longest() const { return raw_.longest(); }
  std::size_t longest_normalized() const { return normalized_.longest(); }

 private:
  /// Finds the leftmost token, and of those that begin there the longest.
  class Finder {
   public:
    void add(std::string_view pattern, const AddedToken& token);
    std::vector<Section> split(std::string_view text) const;
    bool allows_cuts() const;
    bool allows_word_cuts() const;
    std::size_t longest() const { return longest_; }

   private:
    /// A node of the tree of all patterns.
    struct Node {
      std::map<char, std::size_t> children;
      std::optional<std::size_t> token;  ///< index in tokens_ of the pattern that ends here
    };
    struct Match {
      std::size_t end = 0;
      std::size_t token = 0;
    };
    std::optional<Match> longest_at(std::string_view text, std::size_t begin) const;
    bool touches_word(std::string_view before, std::string_view after) const;

    std::vector<Node> nodes_ = std::vector<Node>(1);
    std::vector<AddedToken> tokens_;
    std::array<bool, 256> begins_{};  ///< by byte: whether a pattern begins with it
    std::size_t longest_ = 0;         ///< bytes of a pattern
    /// A character of a word (Unicode Technical Standard 18, annex C).
    Regex word_ = Regex::of_pcre2(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}])");
  };

  Finder raw_;
  Finder normalized_;
};

}  // namespace troupe::stages
