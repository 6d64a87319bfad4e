#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/edges/device_edges.h"
#include "transport/edges/edge_ends.h"

namespace troupe::transport {

class EdgeChannel;

/// A send or a release that waits for an event of the device.
struct HandOver {
  EdgeChannel* channel = nullptr;
  OpenConfiguration* configuration = nullptr;
  MessageKey key;
  tensor::Tensor buffer;           ///< what to send; none for a release
  tensor::Event* event = nullptr;  ///< null once it was reached
};

/// This rank's ends of its edges in one configuration: those of one (chunk, direction) stand
/// beside each other. Lives until no message and no event uses its
/// memory any more.
struct OpenConfiguration {
  ConfigurationSpec spec;
  std::vector<Inbox> inboxes;
  std::vector<Outbox> outboxes;
  std::deque<HandOver> hand_overs;
  std::vector<HandOver*> idle;  ///< hand-overs that wait for nothing
  int in_flight = 0;            ///< buffers being sent, slots being filled, hand-overs that wait
  std::size_t buffer_bytes() const;
};

/// The rules of a channel, whatever link moves the bytes: keys, credits, fencing, refusals, named
/// waits. transport/README.md numbers them. All state is guarded by the link's lock, with which no
/// device is called, nor waited for.
class EdgeChannel : public Channel, private LinkEvents, private DeviceWork::Events {
 public:
  /// `link` and `board` outlive the channel; `link` reports to events().
  EdgeChannel(Link& link, WaitBoard& board) : link_(link), board_(board) {}
  LinkEvents& events() { return *this; }
  /// Closes the channel and waits for the copies that it has under way. From then on it does
  /// nothing with its link, which may end before it.
  void end();

  void open(const ConfigurationSpec& spec) override;
  void set_deadline(std::chrono::milliseconds deadline) override { board_.set_deadline(deadline); }
  tensor::Tensor acquire(const MessageKey& key) override;
  void send(const MessageKey& key, const tensor::Tensor& buffer) override;
  void send(const MessageKey& key, const tensor::Tensor& buffer, tensor::Event& written) override;
  tensor::Tensor receive(const MessageKey& key) override;
  bool ready(const Needs& needs) override;
  void wait_for_either(const Needs& first, const Needs& second) override;
  void release(const MessageKey& key) override;
  void release(const MessageKey& key, tensor::Event& read) override;
  void settle() override;
  std::shared_ptr<SlotMemory> keep(const MessageKey& key) override;
  void free_kept(const MessageKey& key) override;
  void flush() override;
  std::optional<Wait> waiting() const override { return board_.current(); }
  ChannelCounts counts() const override;
  void close(const std::string& reason) override;

 private:
  IncomingTensor* on_message(const Header& header, std::size_t payload_bytes) override;
  void on_unreadable(std::size_t header_bytes) override;
  void on_stale() override { ++counts_.dropped_old; }
  void on_payload(IncomingTensor& tensor) override;
  void on_payload_lost(IncomingTensor& tensor) override;
  void on_departed(OutgoingTensor& tensor) override;
  void on_peer_lost(int rank, const std::string& why) override;
  void on_copied(DeviceCopy& copy) override;
  void on_work_failed() override;

  using Configurations = std::vector<std::unique_ptr<OpenConfiguration>>;
  Configurations retire_configuration();
  std::unique_ptr<OpenConfiguration> make_configuration(const ConfigurationSpec& spec);
  void use_device(const ConfigurationSpec& spec);
  void add_inboxes(std::span<const Edge> pieces, OpenConfiguration& to);
  void add_outboxes(std::span<const Edge> pieces, OpenConfiguration& to);
  std::shared_ptr<SlotMemory> kept_memory(const Edge& edge, const ConfigurationSpec& spec) const;
  void count_edges(const ConfigurationSpec& spec);
  void grant_slots();
  void grant_slots(const Inbox& inbox);
  void use_early_grants();
  bool is_current(const Header& header) const;
  void hold_or_drop(const Header& header);
  void hold(const Header& grant);
  void on_grant(int sender, const Grant& grant);
  void map_slots_of(Outbox& box, int receiver, const Grant& grant);
  void on_mapped(OpenConfiguration& configuration, Outbox& box, std::optional<SenderMemory> memory,
                 bool kept);
  void on_decline(int sender, const Decline& decline);
  std::shared_ptr<SlotMemory> arrivals_of(OpenConfiguration& configuration, const Edge& edge);
  void on_staged(OpenConfiguration& configuration, Inbox& inbox, ReceiverMemory memory);
  void on_credit(int sender, const Credit& credit);
  IncomingTensor* on_tensor(int sender, const TensorMessage& message, std::size_t payload_bytes);
  void refuse(const std::string& text);
  void fail(const std::string& reason);

  bool is_ready(const Needs& needs);
  WaitNote note_of(const Needs& needs);
  void send_locked(const MessageKey& key, const tensor::Tensor& buffer);
  void release_locked(const MessageKey& key);
  void recycle(Inbox& inbox, const Inbox::Slot& slot);
  void hand_over_later(const MessageKey& key, const tensor::Tensor& buffer, tensor::Event& event);
  static void on_event(void* hand_over);
  ReceivingEnd receiving_end(const MessageKey& key);
  SendingEnd sending_end(const MessageKey& key);
  Outbox* outbox_to(int receiver, const EdgeId& edge);
  /// The edge with its ends named by the configuration's ranks instead of processes.
  std::string name_of(Edge edge) const;
  void pump(Outbox& box);
  void send_now(Outbox& box, Outbox::Buffer& buffer);
  void depart(Outbox& box, Outbox::Buffer& buffer);
  void arrive(Inbox::Slot& slot);
  void hand_over(Outbox& box, Outbox::Buffer& buffer);
  void return_credits(Inbox& inbox);
  void return_all_credits();
  Header header_of(decltype(Header::body) body) const;
  /// Counts one transfer or hand-over of `configuration` as ended. Returns whether that
  /// configuration is still open.
  bool transfer_ended(OpenConfiguration* configuration);

  void check_open() const;
  /// What a wait is for beside messages and buffers; null: none.
  using Collectives = std::array<const tensor::Work*, 2>;
  void ask_device(std::unique_lock<Link>& lock, const Collectives& collectives);
  /// Waits until `ready`. Meanwhile `name` says what for, which events may change.
  template <typename Name, typename Ready>
  void wait_until(std::unique_lock<Link>& lock, Name name, Ready ready,
                  Collectives collectives = {});

  Link& link_;
  WaitBoard& board_;
  std::unique_ptr<OpenConfiguration> configuration_;
  /// Closed configurations whose memory a link still uses.
  Configurations retired_;
  static constexpr const char* kNotOpened = "it was not opened";
  std::string closed_ = kNotOpened;  ///< why the channel is closed; empty while it is open
  std::vector<Header>
      early_grants_;  ///< grants of configurations that peers opened before this rank
  ChannelCounts counts_;
  std::vector<const tensor::Event*> asked_;  ///< by the compute thread, in a wait
  bool sleeps_ = false;  ///< whether the compute thread waits, and so returns no credits by itself
  std::atomic<int> waiting_for_events_{0};  ///< hand-overs, of closed configurations too
  /// Null while no configuration had edges on a device. Last: its thread may use the rest.
  std::unique_ptr<DeviceEdges> device_edges_;
};

}  // namespace troupe::transport
