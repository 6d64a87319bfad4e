#include "actors/director/report_thread.h"

#include <boost/test/unit_test.hpp>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/topology/configuration.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(report_thread_test)

namespace {

/// Records what it is told, once it is allowed to go on.
class Slow : public RunObserver {
 public:
  void on_step(const StepReport& report) override { add("step " + std::to_string(report.step)); }
  void on_step_again(const StepReport& report, const CatchUp&) override {
    add("again " + std::to_string(report.step));
  }
  void on_eval(const EvalReport& report) override { add("eval " + std::to_string(report.step)); }
  void on_checkpoint(std::int64_t, const std::string& path) override { add(path); }
  void on_not_saved(std::int64_t, const std::string& error) override { add(error); }
  void on_scaled(const ClusterShape&, bool) override { throw std::runtime_error("no manifest"); }
  void on_event(const std::string& text) override { add(text); }

  std::promise<void> go;
  std::vector<std::string> told;

 private:
  void add(const std::string& what) {
    if (told.empty()) go.get_future().wait();
    told.push_back(what);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(who_reports_does_not_wait_and_everything_arrives_in_order) {
  Slow slow;
  std::vector<std::string> failures;
  ReportThread reports(slow, [&](const std::string& what) { failures.push_back(what); });
  reports.on_step({.step = 1});
  reports.on_step_again({.step = 1}, {});
  reports.on_eval({.step = 2, .loss = 1});
  reports.on_checkpoint(3, "a path");
  reports.on_not_saved(4, "an error");
  reports.on_scaled({}, true);
  reports.on_event("an event");
  std::vector<std::string> before;
  reports.then([&] { before = slow.told; });
  slow.go.set_value();
  reports.finish();
  const std::vector<std::string> all{"step 1", "again 1",  "eval 2",
                                     "a path", "an error", "an event"};
  BOOST_TEST(slow.told == all, boost::test_tools::per_element());
  BOOST_TEST(before == all, boost::test_tools::per_element());
  BOOST_TEST(failures == std::vector<std::string>{"no manifest"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
