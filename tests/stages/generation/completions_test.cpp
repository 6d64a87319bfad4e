#include "stages/inference/completions.h"

#include <boost/test/unit_test.hpp>

#include "tests/stages/generation/generation_model.h"

BOOST_AUTO_TEST_SUITE(completions_test)

using namespace troupe;
using namespace troupe::test;
using stages::Completion;
using stages::Completions;

namespace {

using Ids = std::vector<std::int32_t>;

/// A model whose tokens are bytes.
stages::ModelConfig config() {
  stages::ModelConfig model = generation_models().front();
  model.vocab_size = 256;
  return model;
}

struct Writer {
  GenerationModel model{config()};
  OwnGenerator generator = model.generator({.sequences = 4, .capacity = 60, .prompt_rows = 20});
  std::unique_ptr<stages::Tokenizer> tokenizer = stages::Tokenizer::open("bytes");

  Completions with(const stages::Sampling& sampling, const stages::CompletionOptions& options) {
    return {*generator, *tokenizer, sampling, options};
  }
};

const std::vector<Ids> kPrompts{{'T', 'h', 'e', ' '}, {'x'}, {'1', ','}};

}  // namespace

BOOST_AUTO_TEST_CASE(a_text_has_the_tokens_that_were_asked_for) {
  Writer writer;
  Completions complete = writer.with({.temperature = 0}, {.tokens = 12});
  for (const Completion& text : complete(kPrompts, 0)) {
    BOOST_TEST(text.ids.size() == 12u);
    BOOST_TEST((text.finish == Completion::Finish::length));
    BOOST_TEST(text.text == stages::valid_utf8(writer.tokenizer->decode(text.ids)));
  }
  BOOST_TEST(complete.prefill().tokens == 7);
  BOOST_TEST(complete.decode().tokens == 33);  // the first of each came of its prompt
  BOOST_TEST(complete.prefill().per_second() > 0);
}

BOOST_AUTO_TEST_CASE(an_end_token_ends_a_text_and_is_not_in_it) {
  Writer writer;
  const auto free = writer.with({.temperature = 0}, {.tokens = 12})(kPrompts, 0);
  const std::int32_t end = free[1].ids[5];
  const auto first = std::ranges::find(free[1].ids, end) - free[1].ids.begin();
  const auto ended =
      writer.with({.temperature = 0}, {.tokens = 12, .ends = {300, end}})(kPrompts, 0);
  BOOST_TEST((ended[1].finish == Completion::Finish::stop));
  BOOST_TEST((ended[1].ids == Ids(free[1].ids.begin(), free[1].ids.begin() + first + 1)));
  const Ids before(free[1].ids.begin(), free[1].ids.begin() + first);
  BOOST_TEST(ended[1].text == stages::valid_utf8(writer.tokenizer->decode(before)));
  for (const std::size_t other : {0u, 2u}) {
    if (std::ranges::find(free[other].ids, end) != free[other].ids.end()) continue;
    BOOST_TEST((ended[other].ids == free[other].ids), "the others go on");
  }
}

BOOST_AUTO_TEST_CASE(a_text_ends_before_the_first_stop_text) {
  Writer writer;
  const auto free = writer.with({.temperature = 0}, {.tokens = 12})(kPrompts, 0);
  // The stop texts come of two tokens each; the one that comes first counts.
  const std::string early = free[0].text.substr(3, 2), late = free[0].text.substr(6, 2);
  const auto stopped = writer.with({.temperature = 0}, {.tokens = 12, .stops = {late, early}})(
      std::span(kPrompts).first(1), 0);
  BOOST_TEST((stopped[0].finish == Completion::Finish::stop));
  BOOST_TEST(stopped[0].text == free[0].text.substr(0, free[0].text.find(early)));
  BOOST_TEST(stopped[0].ids.size() < 12u);
  const auto never = writer.with({.temperature = 0}, {.tokens = 12, .stops = {"no such text"}})(
      std::span(kPrompts).first(1), 0);
  BOOST_TEST((never[0].finish == Completion::Finish::length));
  BOOST_TEST(never[0].text == free[0].text);
}

BOOST_AUTO_TEST_CASE(draws_depend_on_the_number_of_the_prompt_and_not_on_the_batch) {
  Writer writer;
  Completions complete = writer.with({.temperature = 1, .seed = 5}, {.tokens = 10});
  const auto all = complete(kPrompts, 0);
  for (std::size_t i = 0; i < kPrompts.size(); ++i) {
    const auto alone = complete(std::span(kPrompts).subspan(i, 1), i);
    BOOST_TEST((alone[0].ids == all[i].ids), i);
  }
  const std::vector<Ids> same{kPrompts[0], kPrompts[0]};
  const auto twice = complete(same, 0);
  BOOST_TEST((twice[0].ids != twice[1].ids), "equal prompts have draws of their own");
}

BOOST_AUTO_TEST_SUITE_END()
