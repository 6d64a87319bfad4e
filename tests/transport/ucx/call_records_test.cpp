#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/null_device.h"
#include "tests/transport/ucx/group_members.h"
#include "transport/collectives/changing_group.h"

// What members of a device's own group, which compares no calls, learn of each other's over the
// group of hosts.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(call_records_test)

namespace {

using tensor::CollectiveCall;
using tensor::Operation;
using tensor::Tensor;
using transport::CallWitness;

/// Two groups of hosts, which tests hand calls that devices would carry.
struct Witnesses {
  UcxNodes nodes{2};
  std::vector<MemberStream> streams{2};
  std::vector<std::unique_ptr<tensor::ProcessGroup>> groups;

  Witnesses() {
    for (const int rank : {0, 1})
      groups.push_back(nodes.node(rank).make_group(kGroupRun, 1, 5, "replicas", {0, 1}, rank));
  }
  CallWitness& operator[](std::size_t member) {
    return dynamic_cast<CallWitness&>(*groups[member]);
  }
  /// Messages of a pair arrive in their order: those of before have been read.
  void exchange_all() {
    const auto first = groups[0]->barrier(streams[0]);
    std::thread waiter([&first] { first->wait(); });
    groups[1]->barrier(streams[1])->wait();
    waiter.join();
  }
  /// The fault of a member, once it has one.
  std::string fault_of(std::size_t member) const {
    while (groups[member]->fault().empty()) std::this_thread::yield();
    return groups[member]->fault();
  }
};

/// An all-reduce, or a gather whose output has twice as many elements.
void record(CallWitness& witness, std::size_t elements,
            Operation operation = Operation::all_reduce) {
  std::vector<float> in(elements), out(2 * elements);
  const Tensor x = view(in), y = view(out);
  const bool in_place = operation == Operation::all_reduce;
  CollectiveCall call{.operation = operation, .in = {}, .out = {in_place ? &x : &y, 1}};
  if (!in_place) call.in = {&x, 1};
  witness.record(call);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_call_that_differs_is_named_at_the_other_member) {
  Witnesses witnesses;
  witnesses.exchange_all();  // number 0
  for (const std::size_t member : {0u, 1u}) {
    record(witnesses[member], 10);
    record(witnesses[member], 20 + member);
    record(witnesses[member], 30 + member, Operation::all_gather);
  }
  witnesses[0].tell_calls();
  const std::string told =
      "group \"replicas\": number 2 is all-reduce of 20 float32 (sum) at rank 0 and all-reduce of "
      "21 float32 (sum) at rank 1: members must call the same collectives in the same order";
  BOOST_TEST(witnesses.fault_of(1) == told);
  BOOST_TEST(witnesses.groups[0]->fault().empty());
  witnesses[1].tell_calls();  // it has ended, and says nothing
  BOOST_TEST(witnesses.nodes.node(0).operations().back().by_device);
}

BOOST_AUTO_TEST_CASE(another_operation_is_named) {
  Witnesses witnesses;
  record(witnesses[0], 10, Operation::all_gather);
  record(witnesses[1], 20);
  witnesses[1].tell_calls();
  const std::string fault = witnesses.fault_of(0);
  BOOST_TEST(fault.find("number 0 is all-gather of 20 float32 at rank 0 and all-reduce of 20 "
                        "float32 (sum) at rank 1") != fault.npos,
             fault);
}

BOOST_AUTO_TEST_CASE(members_that_fit_or_are_late_are_not_at_fault) {
  Witnesses witnesses;
  for (const std::size_t member : {0u, 1u}) {
    record(witnesses[member], 10);
    // The input of a gather may be of any size.
    std::vector<float> in(3 + member), out(7);
    const Tensor x = view(in), y = view(out);
    witnesses[member].record({.operation = Operation::all_gather, .in = {&x, 1}, .out = {&y, 1}});
  }
  for (std::size_t i = 0; i < 3; ++i) record(witnesses[0], 50);  // the other has not come so far
  witnesses[0].tell_calls();
  witnesses[1].tell_calls();
  for (std::size_t i = 0; i < 3; ++i) record(witnesses[1], 50);
  witnesses.exchange_all();
  BOOST_TEST((witnesses.groups[0]->fault().empty() && witnesses.groups[1]->fault().empty()));
}

namespace {

/// A group of a device in which nothing ever ends.
struct StandingGroup final : tensor::DeviceGroup {
  int size() const override { return 2; }
  int member() const override { return 0; }
  bool is_ready() const override { return true; }
  std::unique_ptr<tensor::Work> start(tensor::Stream&, const CollectiveCall&) override {
    return nullptr;
  }
  void abort(const std::string& reason) override { reason_ = reason; }
  std::string fault() const override { return reason_; }
  std::string reason_;
};

struct GroupDevice final : NullDevice {
  tensor::MadeGroup make_group(const tensor::GroupSpec&, tensor::ProcessGroup&) override {
    auto group = std::make_unique<StandingGroup>();
    made.push_back(group.get());
    return {.group = std::move(group), .fault = ""};
  }
  std::vector<StandingGroup*> made;
};

}  // namespace

BOOST_AUTO_TEST_CASE(members_of_a_changing_group_that_stand_still_learn_why) {
  Witnesses witnesses;
  GroupDevice device;
  std::vector<std::unique_ptr<transport::ChangingGroup>> groups;
  std::vector<std::vector<float>> x{std::vector<float>(5), std::vector<float>(6)};
  for (const std::size_t member : {0u, 1u}) {
    auto& group = *groups.emplace_back(std::make_unique<transport::ChangingGroup>(
        std::move(witnesses.groups[member]), device, "replicas"));
    BOOST_TEST(group.begin({.name = "replicas"}).empty());
    group.take_over();
    BOOST_TEST(!group.all_reduce(witnesses.streams[member], view(x[member])));
  }
  groups[1]->watch(false);
  for (auto& group : groups) BOOST_TEST(group->fault().empty());
  groups[1]->watch(true);  // tells its calls
  while (groups[0]->fault().empty()) groups[0]->watch(false);
  groups[0]->watch(false);
  BOOST_TEST(device.made[0]->fault().find("all-reduce of 6 float32 (sum) at rank 1") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
