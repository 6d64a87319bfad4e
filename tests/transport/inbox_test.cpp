#include "transport/edges/inbox.h"

#include <boost/test/unit_test.hpp>

#include "tensor/device/host_memory.h"
#include "transport/edges/outbox.h"

BOOST_AUTO_TEST_SUITE(inbox_test)

namespace {

using namespace troupe;
using namespace troupe::transport;

const Edge kEdge{.from = 1,
                 .to = 2,
                 .chunk = 2,
                 .direction = Direction::forward,
                 .dtype = tensor::DType::f32,
                 .shape = {4, 8},
                 .slots = 3};

TensorMessage fitting(int slot, std::uint64_t sequence) {
  return {.edge = {.chunk = 2, .direction = Direction::forward, .digest = digest(kEdge)},
          .step = 7,
          .microbatch = static_cast<int>(sequence),
          .slot = slot,
          .dtype = kEdge.dtype,
          .shape = kEdge.shape,
          .bytes = 128,
          .sequence = sequence,
          .credit = std::nullopt};
}

struct Box {
  Inbox inbox{kEdge,
              {.arrivals = make_private_slots(slots_bytes(kEdge)), .device = nullptr},
              nullptr,
              false};

  std::string misfit(const TensorMessage& message, std::size_t payload_bytes = 128) const {
    return inbox.misfit(message, payload_bytes).value_or("");
  }
  void arrive(int slot, std::uint64_t sequence) {
    inbox.admit(fitting(slot, sequence)).state = Inbox::Slot::State::ready;
  }
};

BOOST_FIXTURE_TEST_CASE(what_does_not_fit_is_told_with_what_would, Box) {
  BOOST_TEST(misfit(fitting(0, 0)) == "");

  TensorMessage other_type = fitting(0, 0);
  other_type.dtype = tensor::DType::bf16;
  BOOST_TEST(misfit(other_type) == "expected float32 [4, 8], got bfloat16 [4, 8]");
  TensorMessage other_shape = fitting(0, 0);
  other_shape.shape = {8, 4};
  BOOST_TEST(misfit(other_shape) == "expected float32 [4, 8], got float32 [8, 4]");
  TensorMessage other_bytes = fitting(0, 0);
  other_bytes.bytes = 64;
  BOOST_TEST(misfit(other_bytes) == "expected 128 bytes, got 64");
  BOOST_TEST(misfit(fitting(0, 0), 100) == "expected a payload of 128 bytes, got 100");
  TensorMessage written = fitting(0, 0);
  written.placement = Placement::written;
  BOOST_TEST(misfit(written, 0) == "");
  BOOST_TEST(misfit(written, 128) == "expected a payload of 0 bytes, got 128");
  TensorMessage other_edge = fitting(0, 0);
  other_edge.edge.digest ^= 1;
  BOOST_TEST(misfit(other_edge).find("expected the edge's digest") == 0u);
  BOOST_TEST(misfit(fitting(3, 0)) == "expected a slot below 3, got 3");
}

BOOST_FIXTURE_TEST_CASE(no_message_exceeds_its_credit, Box) {
  arrive(1, 0);
  BOOST_TEST(misfit(fitting(1, 5)) ==
             "expected a slot that was granted, got slot 1, which is not free");
  Inbox::Slot* slot = inbox.find(7, 0);
  BOOST_TEST_REQUIRE(slot != nullptr);
  inbox.release(*slot);
  // The slot is free, but the sender has not been told and cannot know.
  BOOST_TEST(misfit(fitting(1, 5)).find("not free") != std::string::npos);
  BOOST_TEST(inbox.take_owed()->slots.size() == 1u);
  BOOST_TEST(misfit(fitting(1, 5)) == "");
}

BOOST_FIXTURE_TEST_CASE(a_message_that_was_here_before_is_known, Box) {
  arrive(0, 4);
  BOOST_TEST(inbox.is_duplicate(fitting(0, 4)));
  inbox.release(*inbox.find(7, 4));
  inbox.take_owed();
  BOOST_TEST(inbox.is_duplicate(fitting(0, 4)));
  BOOST_TEST(!inbox.is_duplicate(fitting(0, 5)));
}

BOOST_FIXTURE_TEST_CASE(two_messages_of_one_key_are_refused, Box) {
  arrive(0, 4);
  TensorMessage second = fitting(1, 5);
  second.microbatch = 4;
  BOOST_TEST(misfit(second) ==
             "expected one activation of step 7, microbatch 4 into chunk 2, got a second");
}

BOOST_FIXTURE_TEST_CASE(credits_go_back_before_the_sender_has_none, Box) {
  BOOST_TEST(!inbox.sender_runs_short());  // 3 of 3
  arrive(0, 0);
  BOOST_TEST(!inbox.sender_runs_short());  // 2 of 3
  arrive(1, 1);
  BOOST_TEST(inbox.sender_runs_short());  // 1 of 3
}

/// The second of two pieces of a tensor of eight rows.
struct JoinedBox {
  Edge edge = [] {
    Edge piece = kEdge;
    piece.received = {.first_row = 4, .rows = 8};
    return piece;
  }();
  Inbox inbox{
      edge, {.arrivals = make_private_slots(slots_bytes(edge)), .device = nullptr}, nullptr, false};
};

BOOST_FIXTURE_TEST_CASE(pieces_lie_in_slots_of_whole_tensors, JoinedBox) {
  const Inbox::Slot& slot = inbox.admit(fitting(2, 0));
  const tensor::Tensor whole = inbox.whole(slot);
  BOOST_TEST((whole.shape == tensor::Shape{8, 8}));
  BOOST_TEST(whole.as<std::byte>() == inbox.memory().arrivals->data() + 2 * 256);
  BOOST_TEST(slot.data == whole.as<std::byte>() + 128);
}

BOOST_FIXTURE_TEST_CASE(joined_slots_are_granted_as_they_were_freed, JoinedBox) {
  for (int slot = 0; slot < 3; ++slot)
    inbox.admit(fitting(slot, static_cast<std::uint64_t>(slot))).state = Inbox::Slot::State::held;
  for (const int microbatch : {1, 2, 0}) inbox.release(*inbox.find(7, microbatch));
  const auto credit = inbox.take_owed();
  BOOST_TEST_REQUIRE(credit.has_value());
  BOOST_TEST((std::vector(credit->slots.begin(), credit->slots.end()) ==
              std::vector<std::uint16_t>{1, 2, 0}));
  BOOST_TEST(!inbox.take_owed().has_value());
}

BOOST_FIXTURE_TEST_CASE(a_piece_in_another_slot_than_its_siblings_is_told, JoinedBox) {
  inbox.admit(fitting(1, 0));  // microbatch 0
  BOOST_TEST(inbox.misfit_of_sibling(fitting(1, 0)).value_or("") == "");
  TensorMessage message = fitting(0, 0);
  BOOST_TEST(inbox.misfit_of_sibling(message).value_or("") ==
             "expected slot 1, which has its other pieces, got 0");
  message = fitting(1, 5);
  BOOST_TEST(inbox.misfit_of_sibling(message).value_or("") ==
             "expected a piece of activation of step 7, microbatch 0 into chunk 2, of which slot 1 "
             "has another one");
  BOOST_TEST(inbox.misfit_of_sibling(fitting(2, 5)).value_or("") == "");
}

BOOST_AUTO_TEST_CASE(senders_of_pieces_use_credits_in_their_order) {
  for (const bool joined : {false, true}) {
    Edge edge = kEdge;
    if (joined) edge.received = {.first_row = 4, .rows = 8};
    auto memory = std::make_shared<tensor::Buffer>(tensor::allocate_host(send_buffers_bytes(edge)));
    Outbox box(edge, nullptr, std::move(memory), {});
    box.open({.mapped = nullptr});
    std::vector<int> used;
    for (int i = 0; i < 5; ++i) {
      Outbox::Buffer& buffer = box.take(0, {.step = 1, .microbatch = i});
      used.push_back(buffer.slot);
      box.recycle(buffer);
      if (i == 0) BOOST_TEST(box.add_credit(used.front()));
    }
    // Three that were granted at first and one that was freed: then there is none.
    BOOST_TEST((used == (joined ? std::vector{0, 1, 2, 0, -1} : std::vector{2, 2, 1, 0, -1})));
  }
}

BOOST_AUTO_TEST_CASE(many_credits_fill_several_messages) {
  Edge edge = kEdge;
  edge.slots = 150;
  Inbox inbox(edge, {.arrivals = make_private_slots(slots_bytes(edge)), .device = nullptr}, nullptr,
              false);
  for (int i = 0; i < 150; ++i) {
    TensorMessage message = fitting(i, static_cast<std::uint64_t>(i));
    inbox.release(inbox.admit(message));
  }
  std::size_t freed = 0;
  int messages = 0;
  while (const auto credit = inbox.take_owed()) {
    freed += credit->slots.size();
    ++messages;
  }
  BOOST_TEST(freed == 150u);
  BOOST_TEST(messages == 3);
}

BOOST_AUTO_TEST_CASE(a_credit_for_a_free_slot_is_refused) {
  auto memory = std::make_shared<tensor::Buffer>(tensor::allocate_host(send_buffers_bytes(kEdge)));
  Outbox box(kEdge, nullptr, std::move(memory), {});
  BOOST_TEST(box.admit_grant());
  BOOST_TEST(!box.admit_grant());
  box.open({.mapped = nullptr});
  BOOST_TEST(!box.add_credit(1));
  BOOST_TEST(!box.add_credit(3));
}

BOOST_AUTO_TEST_CASE(slots_are_shared_by_name) {
  const auto slots = make_shared_slots(1000);
  const SegmentName name = slots->name();
  BOOST_TEST_REQUIRE(name.id != SegmentName::kNone);
  const auto mapped = map_slots(name, 1000);
  BOOST_TEST_REQUIRE(mapped != nullptr);
  mapped->data()[999] = std::byte{42};
  BOOST_TEST((slots->data()[999] == std::byte{42}));
  BOOST_TEST(reinterpret_cast<std::uintptr_t>(slots->data()) % 64 == 0u);

  BOOST_TEST(map_slots({}, 1000) == nullptr);
  BOOST_TEST(map_slots({.id = name.id, .nonce = name.nonce + 1}, 1000) == nullptr);
  BOOST_TEST(map_slots(name, 100'000) == nullptr);
  BOOST_TEST(map_slots({.id = 1ll << 40, .nonce = name.nonce}, 1000) == nullptr);
}

BOOST_AUTO_TEST_CASE(mapped_slots_outlive_their_owner_but_are_not_mapped_again) {
  auto slots = make_shared_slots(1000);
  const SegmentName name = slots->name();
  const auto mapped = map_slots(name, 1000);
  slots.reset();
  mapped->data()[0] = std::byte{1};
  BOOST_TEST((mapped->data()[0] == std::byte{1}));
}

BOOST_AUTO_TEST_CASE(a_name_without_memory_is_not_mapped) {
  auto slots = make_shared_slots(1000);
  const SegmentName name = slots->name();
  slots.reset();
  BOOST_TEST(map_slots(name, 1000) == nullptr);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
