#include "stages/files/hugging_face/model_field.h"

namespace troupe::stages {

void read_field(const ModelField& field, ConfigFields& fields, const ModelConfig& defaults,
                ModelConfig& model) {
  const auto read = [&](const auto& member) {
    auto& value = model.*member.at;
    using T = std::remove_cvref_t<decltype(value)>;
    if (member.has_none) {
      const auto given = fields.get_or_null<T>(field.name, defaults.*member.at);
      if (given && !(*given > 0) && !fields.value(field.name).is_null())
        fields.refuse(field.name, "expected null or a number above 0");
      value = given.value_or(T());
      return;
    }
    value = fields.get(field.name, T(defaults.*member.at));
    if (field.alias) value = fields.get(field.alias, T(value));
  };
  std::visit(read, field.member);
}

}  // namespace troupe::stages
