#include "tensor/cuda/nccl/nccl_group.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

/// A collective that is under way, or events for one. Deleting the handle returns it to the group.
class NcclGroup::Collective final : public Work {
 public:
  explicit Collective(NcclGroup& of)
      : group(of),
        given(of.shared_.device().make_event()),
        ended(of.shared_.device().make_timed_event()) {}
  static void operator delete(Collective* self, std::destroying_delete_t) {
    self->group.take_back(*self);
  }

  bool done() const override { return group.has_fault() || ended->done(); }
  void wait() override { group.wait_for(*this); }
  void wait(Stream& stream) override {
    if (group.has_fault()) group.leave(*this);
    ended->wait(stream);
    is_awaited = true;
  }
  bool blocks_host() const override { return false; }
  double finished_s() const override { return ended->reached_s(); }

  NcclGroup& group;
  Operation operation = Operation::barrier;
  std::uint64_t sequence = 0;
  bool is_awaited = false;  ///< by a stream
  const std::unique_ptr<Event> given, ended;
};

void NcclGroup::Destroy::operator()(Collective* collective) const {
  collective->~Collective();
  ::operator delete(collective);
}

NcclGroup::NcclGroup(NcclCollectives& shared, const GroupSpec& spec,
                     std::shared_ptr<NcclCommunicator> communicator)
    : shared_(shared),
      spec_(spec),
      communicator_(std::move(communicator)),
      exchange_(communicator_.get(), shared.stream(), shared.adding(), spec.sums),
      counts_(spec.members.size()) {}

NcclGroup::~NcclGroup() {
  TROUPE_ASSERT(idle_.size() == all_.size());
  try {
    for (const auto& collective : all_) collective->ended->synchronize();
  } catch (const Error&) {
    // The device has failed, and runs no more.
  }
}

bool NcclGroup::is_ready() const {
  return (!communicator_ || communicator_->state() == NcclCommunicator::State::ready) &&
         !has_fault();
}

NcclGroup::Collective& NcclGroup::take() {
  if (idle_.empty()) {
    all_.emplace_back(new Collective(*this));
    idle_.push_back(all_.back().get());
  }
  Collective& collective = *idle_.back();
  idle_.pop_back();
  return collective;
}

std::unique_ptr<Work> NcclGroup::start(Stream& stream, const CollectiveCall& given) {
  const CollectiveCall call = completed(given, member(), counts_);
  if (const std::string reason = fault(); !reason.empty())
    throw Error(ErrorKind::unavailable, reason);
  TROUPE_ASSERT(!communicator_ || communicator_->state() != NcclCommunicator::State::starting);
  Collective& collective = take();
  collective.operation = call.operation;
  collective.sequence = next_sequence_++;
  collective.is_awaited = false;
  try {
    collective.given->record(stream);
    collective.given->wait(shared_.stream());
    exchange_.queue(call);
    collective.ended->record(shared_.stream());
  } catch (...) {
    collective.ended->record(shared_.stream());  // behind what was queued of it
    take_back(collective);
    throw;
  }
  return std::unique_ptr<Work>(&collective);
}

// --- the end of a collective

std::string NcclGroup::name_of(const Collective& collective) const {
  return fmt::format("{} {} of group \"{}\"", tensor::name_of(collective.operation),
                     collective.sequence, spec_.name);
}

void NcclGroup::wait_for(Collective& collective) {
  NcclService& service = shared_.service();
  collective.ended->on_reached([](void* of) { static_cast<NcclService*>(of)->notify(); }, &service);
  const bool limited = spec_.deadline.count() > 0;
  const auto until = limited ? Clock::now() + spec_.deadline : Clock::time_point::max();
  if (!service.wait([&] { return collective.done(); }, until))
    end(fmt::format("waited {:g} s for {}", std::chrono::duration<double>(spec_.deadline).count(),
                    name_of(collective)));
  if (has_fault()) leave(collective);
}

/// Until its kernels have ended, they use the caller's tensors. The service ends the process if
/// they do not.
void NcclGroup::leave(Collective& collective) {
  collective.ended->synchronize();
  throw Error(ErrorKind::unavailable, fault());
}

/// A collective that nobody waits for uses its tensors until its kernels have ended.
void NcclGroup::take_back(Collective& collective) {
  try {
    if (!collective.is_awaited && !collective.ended->done()) {
      if (!has_fault()) end(name_of(collective) + " was dropped before it was done");
      collective.ended->synchronize();
    }
  } catch (const Error&) {
    // The device has failed, and runs no more.
  }
  idle_.push_back(&collective);
}

void NcclGroup::end(const std::string& fault) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.empty()) aborted_ = fault;
  }
  shared_.service().abort(fault);
}

void NcclGroup::abort(const std::string& reason) {
  end(fmt::format("group \"{}\" was aborted: {}", spec_.name, reason));
}

std::string NcclGroup::fault() const {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_.empty()) return aborted_;
  }
  return communicator_ ? communicator_->fault() : "";
}

}  // namespace troupe::tensor::cuda
