#include <boost/test/unit_test.hpp>

#include "tests/support/on_terminal.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests what commands that read and write models tell of how far they are.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(progress_test)

namespace {

/// A trained checkpoint and a text to evaluate it on.
struct Trained {
  Trained() {
    const Finished done = troupe({"launch", place.manifest("run")});
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  }
  const Workplace place;
  const std::string checkpoint = place.checkpoint("run", 6);
  const std::string text = (place.dir / "corpus.txt").string();
};

std::string shown_on_terminal(const std::vector<std::string>& command) {
  OnTerminal program(command);
  BOOST_TEST(program.finish() == 0, program.shown());
  return program.shown();
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_terminal_shows_what_is_copied_and_read) {
  const Trained trained;
  const Workplace& place = trained.place;
  const std::string model = (place.dir / "model").string();
  const std::string back = (place.dir / "back").string();
  const std::string exported = shown_on_terminal({"export", trained.checkpoint, model});
  BOOST_TEST(holds(exported, "exported "), exported);
  BOOST_TEST(holds(exported, "/s\x1b[K"), exported);
  const std::string imported = shown_on_terminal({"import", model, back});
  BOOST_TEST(holds(imported, "imported "), imported);
  // What precedes the command's own work leaves no line behind.
  const std::string evaluated =
      shown_on_terminal({"eval", trained.checkpoint, "--files", trained.text});
  BOOST_TEST(holds(evaluated, "\r\x1b[K"), evaluated);
  // A slow machine shows how far the weights are, and erases it.
  const std::size_t loading = std::min(evaluated.rfind("loading weights,"), evaluated.size());
  BOOST_TEST((loading == evaluated.size() || holds(evaluated.substr(loading), "\r\x1b[K")),
             evaluated);
}

BOOST_AUTO_TEST_CASE(a_terminal_shows_how_far_the_plan_of_many_ranks_is) {
  const Workplace place;
  const std::string many = place.manifest("many", {{"mesh.dp", "64"}, {"batch.global", "128"}});
  const std::string shown = shown_on_terminal({"plan", many});
  BOOST_TEST(holds(shown, "\rplanning the memory of 64 ranks\x1b[K"), shown);
  BOOST_TEST(holds(shown, ", 75 % done, "), shown);
  BOOST_TEST(!holds(shown_on_terminal({"plan", many, "--json"}), "planning"));
  BOOST_TEST(!holds(shown_on_terminal({"plan", place.manifest("few")}), "planning"));
}

BOOST_AUTO_TEST_CASE(short_work_and_json_have_no_progress) {
  const Trained trained;
  const Workplace& place = trained.place;
  const std::string model = (place.dir / "model").string();
  BOOST_TEST(troupe({"export", trained.checkpoint, model}).err == "");
  for (const char* command : {"eval", "plan"}) {
    const std::string target =
        command == std::string("eval")
            ? trained.checkpoint
            : place.manifest("next", {{"run.max_steps", "9"},
                                      {"checkpoint.resume", '"' + trained.checkpoint + '"'}});
    std::vector<std::string> words{command, target, "--json"};
    if (command == std::string("eval")) words.insert(words.end(), {"--files", trained.text});
    const std::string shown = shown_on_terminal(words);
    BOOST_TEST(shown.front() == '{', shown);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
