#include "stages/files/safetensors/json_file.h"

#include <unordered_set>
#include <vector>

#include "stages/corpus/tokenizers/text/utf8.h"
#include "stages/storage/data_error.h"
#include "stages/storage/input_file.h"
#include "stages/storage/json_reason.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

constexpr std::uint64_t kMaxJsonBytes = 100'000'000;
constexpr int kMaxDepth = 8;

/// Reads JSON without keeping it, and refuses deep nesting and a name that is given twice. The
/// library's own callbacks could do that while it parses, but after each object they make it search
/// the one around it, so that an object of n objects takes n * n steps.
class JsonCheck final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonCheck(int max_depth) : max_depth_(max_depth) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return begin(); }
  bool start_array(std::size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(std::string& name) override {
    if (!names_.back().insert(name).second)
      throw data_error("the name {} is given twice", nlohmann::json(name).dump());
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& error) override {
    throw data_error("not valid JSON: {}", valid_utf8(json_reason(error)));
  }

 private:
  bool begin() {
    if (std::ssize(names_) >= max_depth_)
      throw data_error("nested deeper than {} levels", max_depth_);
    names_.emplace_back();
    return true;
  }
  bool end() {
    names_.pop_back();
    return true;
  }

  const int max_depth_;
  std::vector<std::unordered_set<std::string>> names_;  // of the objects open at this place
};

}  // namespace

nlohmann::json parse_json(std::string_view text, int max_depth) {
  JsonCheck check(max_depth);
  nlohmann::json::sax_parse(text, &check);
  return nlohmann::json::parse(text);
}

nlohmann::json read_json_file(const std::filesystem::path& path) {
  const std::string text = read_whole_file(path, kMaxJsonBytes);
  nlohmann::json json;
  try {
    json = parse_json(text, kMaxDepth);
  } catch (const Error& error) {
    throw data_error("{}: {}", path.string(), error.what());
  }
  if (!json.is_object()) throw data_error("{}: not a JSON object", path.string());
  return json;
}

template <typename T>
T get_member(const nlohmann::json& object, const char* name, const std::filesystem::path& path) {
  const auto found = object.find(name);
  if (found == object.end()) throw data_error("{}: \"{}\" is missing", path.string(), name);
  const auto expect = [&](bool is_one, const char* type) {
    if (!is_one)
      throw data_error("{}: \"{}\" is a {}, expected {}", path.string(), name, found->type_name(),
                       type);
  };
  if constexpr (std::is_same_v<T, std::int64_t>)
    expect(found->is_number_integer() &&
               !(found->is_number_unsigned() && found->template get<std::uint64_t>() > INT64_MAX),
           "an integer");
  else if constexpr (std::is_same_v<T, double>)
    expect(found->is_number(), "a number");
  else if constexpr (std::is_same_v<T, bool>)
    expect(found->is_boolean(), "true or false");
  else
    expect(found->is_string(), "a string");
  return found->template get<T>();
}

template std::int64_t get_member(const nlohmann::json&, const char*, const std::filesystem::path&);
template double get_member(const nlohmann::json&, const char*, const std::filesystem::path&);
template bool get_member(const nlohmann::json&, const char*, const std::filesystem::path&);
template std::string get_member(const nlohmann::json&, const char*, const std::filesystem::path&);

}  // namespace troupe::stages
