#include "tests/support/null_workers.h"

#include <caf/io/middleman.hpp>
#include <chrono>
#include <future>
#include <iterator>
#include <utility>

#include "actors/worker/stage_actor.h"
#include "stages/model/model_config.h"
#include "tensor/errors/error.h"

namespace troupe::test {
namespace {

using namespace actors;

/// About the length of a UCX address within one machine.
constexpr std::size_t kAddressBytes = 200;

/// No test judges these workers by their silence, and ten thousand of them on a few cores would do
/// little else than send heartbeats at the usual interval.
constexpr std::chrono::seconds kHeartbeat{10};

/// A stage actor that is its own runner. Its state is a number of updates; it tells which of two
/// configurations' states it holds, as RankExecutor does.
class NullStage : public StageActor, public OrderSink {
 public:
  NullStage(caf::actor_config& config, const caf::actor& director, const Join& join,
            std::size_t num_parameters, std::function<void()> on_finish)
      : StageActor(config, {.director = director, .door = director}, join, *this, kHeartbeat),
        incarnation_(join.member.incarnation),
        num_parameters_(num_parameters),
        on_finish_(std::move(on_finish)) {}

  void push(StageOrder order) override {
    std::visit([this](const auto& o) { perform(o); }, order);
  }
  void interrupt(std::uint32_t, const std::string&) override {}
  void warm_up(const WarmUp&, const std::function<void()>& answer) override { answer(); }
  Heartbeat activity() const override { return {.incarnation = incarnation_, .state = "ready"}; }

 private:
  struct State {
    std::uint32_t configuration = 0;
    std::int64_t step = -1;
  };

  void reply(StageAnswer answer) { send(this, std::move(answer)); }

  void perform(const Halt& order) {
    if (before_.configuration == order.kept) now_ = before_;
    before_ = {};
    Halted halted{.configuration = order.configuration,
                  .incarnation = incarnation_,
                  .address = "",
                  .inventory = {}};
    if (now_.configuration == order.kept && now_.step >= 0)
      halted.inventory = {.step = now_.step, .has_previous = true, .copies = {}};
    else
      now_ = {};
    reply(halted);
  }
  void perform(const EnterConfiguration& order) {
    const Configuration& configuration = order.configuration;
    before_ = std::exchange(
        now_, {.configuration = configuration.number, .step = order.start.state.step});
    rank_ = configuration.rank_of(incarnation_);
    if (rank_ >= configuration.num_ranks()) return;  // it leaves
    const auto pp = static_cast<std::size_t>(configuration.shape.mesh.pp);
    const auto stage = static_cast<std::size_t>(place_of(configuration.shape.mesh, rank_).stage);
    Ready ready{.configuration = configuration.number,
                .rank = rank_,
                .digest = order.start.digest,
                .parameters = {}};
    const std::size_t end = num_parameters_ * (stage + 1) / pp;
    for (std::size_t i = num_parameters_ * stage / pp; i < end; ++i)
      ready.parameters.push_back(static_cast<std::uint32_t>(i));
    owned_ = ready.parameters.size();
    reply(ready);
  }
  void perform(const RunStep& order) {
    before_ = {};
    reply(Prepared{.configuration = order.configuration,
                   .step = order.step,
                   .rank = rank_,
                   .loss_sum = 1,
                   .squared_norms = std::vector<double>(owned_, 1e-6),
                   .busy_s = 0,
                   .wall_s = 0,
                   .sent = {},
                   .waited = {}});
  }
  void perform(const Commit& order) { now_.step = order.step; }
  void perform(const Save& order) {
    reply(Saved{
        .configuration = order.configuration, .step = order.step, .rank = rank_, .error = ""});
  }
  void perform(const Evaluate& order) {
    reply(Evaluated{.configuration = order.configuration,
                    .step = order.step,
                    .batch = order.batch,
                    .rank = rank_});
  }
  void perform(const Finish&) { on_finish_(); }

  const std::uint64_t incarnation_;
  const std::size_t num_parameters_;
  const std::function<void()> on_finish_;
  State now_, before_;
  int rank_ = -1;
  std::size_t owned_ = 0;
};

}  // namespace

NullWorkers::NullWorkers(const RunSpec& spec, std::function<void(const WorkerExited&)> on_exit)
    : spec_(spec),
      num_parameters_(stages::parameters_of(spec.model).size()),
      on_exit_(std::move(on_exit)) {}

NullWorkers::~NullWorkers() {
  for (const auto& [incarnation, worker] : workers_)
    caf::anon_send_exit(worker, caf::exit_reason::kill);
}

void NullWorkers::run() {
  while (!quit_) orders_.pop()();
}

void NullWorkers::spawn(const WorkerBootstrap& bootstrap) {
  orders_.push([this, bootstrap] { start(bootstrap); });
}
void NullWorkers::kill(std::uint64_t incarnation) {
  orders_.push([this, incarnation] { end(incarnation, false); });
}
void NullWorkers::kill_all() {
  orders_.push([this] {
    while (!workers_.empty()) end(workers_.begin()->first, false);
  });
}
void NullWorkers::quit() {
  orders_.push([this] { quit_ = true; });
}
void NullWorkers::kill_one(std::mt19937_64& rng) {
  orders_.push([this, pick = rng()] {
    const auto at = static_cast<std::ptrdiff_t>(pick % workers_.size());
    end(std::next(workers_.begin(), at)->first, false);
  });
}
void NullWorkers::talk(const Talk& talk) {
  std::promise<void> done;
  orders_.push([&] {
    talk(line());
    done.set_value();
  });
  done.get_future().wait();
}

void NullWorkers::start(const WorkerBootstrap& bootstrap) {
  if (!director_) {  // later workers use the same connection, whatever port they are given
    const auto found = system_.middleman().remote_actor(bootstrap.host,
                                                        static_cast<std::uint16_t>(bootstrap.port));
    if (!found)
      throw Error(ErrorKind::unavailable, "no director: " + system_.render(found.error()));
    director_ = *found;
    if (before_first_join_) before_first_join_(line());
  }
  const Join join{.token = bootstrap.token,
                  .member = {.id = bootstrap.id,
                             .incarnation = bootstrap.incarnation,
                             .host = "localhost",
                             .address = std::string(kAddressBytes, 'a')}};
  const std::function<void()> on_finish = [this, incarnation = bootstrap.incarnation] {
    orders_.push([this, incarnation] { end(incarnation, true); });
  };
  workers_[bootstrap.incarnation] =
      system_.spawn<NullStage>(director_, join, num_parameters_, on_finish);
}

void NullWorkers::end(std::uint64_t incarnation, bool clean) {
  const auto found = workers_.find(incarnation);
  if (found == workers_.end()) return;
  caf::anon_send_exit(found->second, caf::exit_reason::kill);
  workers_.erase(found);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  on_exit_({.incarnation = incarnation,
            .cause = clean ? "exit code 0" : "signal 9 (SIGKILL)",
            .now_s = std::chrono::duration<double>(now).count()});
}

}  // namespace troupe::test
