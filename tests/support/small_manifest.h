#pragma once

#include <map>
#include <sstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace troupe::test {

/// Manifest keys by table and name, with their values as TOML text: {{"mesh.pp", "2"}}.
using Keys = std::map<std::string, std::string>;

/// A folder with a corpus and manifests of a model that trains in no time; its runs lie in it, too.
class Workplace {
 public:
  Workplace() {
    // Words with a skewed distribution, so that there is something to learn.
    std::ostringstream text;
    std::uint32_t state = 7;
    for (int i = 0; i < 20000; ++i) {
      state = state * 1664525u + 1013904223u;
      const auto word = (state >> 16) % 97 * ((state >> 24) % 13) % 89;
      text << static_cast<char>('a' + word % 26) << static_cast<char>('a' + word / 26)
           << (word % 7 ? " " : ".\n");
    }
    dir.write("corpus.txt", text.str());
  }

  /// Writes NAME.toml: the base with `keys` laid over it (an empty value removes a key). Returns
  /// its path.
  std::string manifest(const std::string& name, const Keys& keys = {}) const {
    Keys all{{"run.seed", "1234"},
             {"run.max_steps", "6"},
             {"model.hidden_size", "32"},
             {"model.intermediate_size", "48"},
             {"model.num_hidden_layers", "6"},
             {"model.num_attention_heads", "4"},
             {"model.num_key_value_heads", "2"},
             {"model.vocab_size", "256"},
             {"data.tokenizer", "\"bytes\""},
             {"batch.seq_len", "16"},
             {"batch.micro", "2"},
             {"batch.global", "16"},
             {"optimizer.lr", "0.001"},
             {"optimizer.warmup_steps", "3"},
             {"checkpoint.interval", "0"},
             {"run.dir", '"' + run(name) + '"'},
             {"data.files", "[\"" + (dir / "corpus.txt").string() + "\"]"}};
    for (const auto& [key, value] : keys) all[key] = value;
    std::string text, table;
    for (const auto& [key, value] : all) {
      if (value.empty()) continue;
      const auto dot = key.find('.');
      if (key.substr(0, dot) != table) text += "[" + (table = key.substr(0, dot)) + "]\n";
      text += key.substr(dot + 1) + " = " + value + "\n";
    }
    return dir.write(name + ".toml", text);
  }
  std::string run(const std::string& name) const { return (dir / ("runs/" + name)).string(); }
  std::string checkpoint(const std::string& name, int step) const {
    return run(name) + "/checkpoints/step-" + std::to_string(step);
  }

  TempDir dir;
};

}  // namespace troupe::test
