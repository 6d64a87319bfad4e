#include "transport/node/ucx_node.h"

#include <mutex>
#include <optional>

#include "transport/collectives/ucx_group.h"
#include "transport/edges/edge_channel.h"
#include "transport/ucx/ucx_link.h"

namespace troupe::transport {
namespace {

class Node : public UcxNode {
 public:
  explicit Node(const UcxOptions& options)
      : worker_(options.spin, options.environment),
        peers_(std::in_place, worker_,
               [this](int rank, const std::string& why) { on_lost(rank, why); }),
        slots_(options.slots ? options.slots : std::make_shared<SlotPool>()),
        link_(worker_, *peers_, slots_),
        channel_(link_, board_),
        hub_(worker_, *peers_, board_, channel_.events(), slots_) {
    const std::lock_guard lock(worker_);
    link_.start(channel_.events());
    hub_.start();
  }
  ~Node() override {
    channel_.end();
    worker_.stop();
    peers_.reset();
    // Ends the requests that are left; only then may the memory that they use be freed.
    worker_.close();
  }

  std::string address() const override { return worker_.address(); }
  void connect(int rank, std::uint64_t incarnation, const std::string& address,
               bool on_this_host) override {
    const std::lock_guard lock(worker_);
    peers_->connect(rank, incarnation, address, on_this_host);
  }
  void disconnect(int rank) override {
    const std::lock_guard lock(worker_);
    peers_->disconnect(rank);
  }
  void set_spin(std::chrono::microseconds spin) override {
    const std::lock_guard lock(worker_);
    worker_.set_spin(spin);
  }
  SentBytes sent() override {
    const std::lock_guard lock(worker_);
    return peers_->sent();
  }
  bool shares_memory() const override { return worker_.shares_memory(); }
  Channel& channel() override { return channel_; }
  std::vector<OperationRecord> operations() override {
    const std::lock_guard lock(worker_);
    return hub_.recorder().records();
  }
  std::unique_ptr<tensor::ProcessGroup> make_group(std::uint64_t run, std::uint32_t configuration,
                                                   int id, const std::string& name,
                                                   std::vector<int> ranks, int this_rank,
                                                   const CollectiveMemory& room) override {
    const GroupKey key{
        .run = run, .configuration = configuration, .id = static_cast<std::uint32_t>(id)};
    return std::make_unique<UcxGroup>(hub_, key, name, std::move(ranks), this_rank, room);
  }

 private:
  void on_lost(int rank, const std::string& why) {
    channel_.events().on_peer_lost(rank, why);
    hub_.on_peer_lost(rank, why);
  }

  UcxWorker worker_;
  WaitBoard board_;
  std::optional<UcxPeers> peers_;
  const std::shared_ptr<SlotPool> slots_;
  UcxLink link_;
  EdgeChannel channel_;
  GroupHub hub_;
};

}  // namespace

std::unique_ptr<UcxNode> UcxNode::create(const UcxOptions& options) {
  return std::make_unique<Node>(options);
}

}  // namespace troupe::transport
