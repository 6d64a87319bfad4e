#include "launch/hosts/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <map>
#include <span>

#include "actors/messages/control_plane.h"
#include "actors/security/sockets.h"
#include "launch/host/host_list.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using actors::Host;

template <typename Number = int>
Number number_in(std::string_view text, const std::string& variable) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0)
    throw Error(
        ErrorKind::unavailable,
        fmt::format("{} = '{}' in the environment: '{}' is no number", variable, text, text));
  return number;
}

std::optional<int> number_of(const Environment& environment, const std::string& variable) {
  const auto text = environment(variable);
  if (!text) return std::nullopt;
  return number_in(*text, variable);
}

/// Slurm's numbers by host: "2(x3),1" is 2, 2, 2, 1.
std::vector<int> numbers_by_host(const std::string& text, const std::string& variable) {
  std::vector<int> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    const std::size_t times = part.find("(x");
    const int number = number_in(part.substr(0, times), variable);
    const int repeats = times == part.npos
                            ? 1
                            : number_in(part.substr(times + 2, part.size() - times - 3), variable);
    numbers.insert(numbers.end(), static_cast<std::size_t>(repeats), number);
    begin = end + 1;
  }
  return numbers;
}

/// The hosts of a Slurm job or step, with as many slots as their processors have room for ranks,
/// and at least one for each task.
std::vector<Host> slurm_hosts(const Environment& environment, const std::string& nodes,
                              const std::string& tasks_variable) {
  const std::array lists{nodes};
  std::vector<Host> hosts = parse_hosts(lists, "Slurm's list of nodes", ErrorKind::unavailable);
  for (const std::string& variable : {tasks_variable, std::string("SLURM_JOB_CPUS_PER_NODE")}) {
    const auto text = environment(variable);
    if (!text) continue;
    const std::vector<int> numbers = numbers_by_host(*text, variable);
    for (std::size_t i = 0; i < hosts.size() && i < numbers.size(); ++i)
      hosts[i].slots = std::max(hosts[i].slots, numbers[i]);
  }
  return hosts;
}

std::string rendezvous_in(const Environment& environment) {
  const auto host = environment("MASTER_ADDR"), port = environment("MASTER_PORT");
  if (!host || !port || environment("TORCHELASTIC_USE_AGENT_STORE") == "True") return "";
  return actors::host_text(*host) + ":" + *port;
}

Job slurm_job(const Environment& environment, const std::string& id) {
  Job job{.name = "Slurm job " + id, .own = environment("SLURMD_NODENAME").value_or("")};
  const auto step_tasks = number_of(environment, "SLURM_STEP_NUM_TASKS");
  const auto step_nodes = environment("SLURM_STEP_NODELIST");
  if (step_tasks && step_nodes) {
    job.kind = Job::Kind::process;
    job.key = fmt::format("slurm-{}.{}", id, environment("SLURM_STEP_ID").value_or("0"));
    job.hosts = slurm_hosts(environment, *step_nodes, "SLURM_STEP_TASKS_PER_NODE");
    job.rendezvous = rendezvous_in(environment);
    job.is_first = number_of(environment, "SLURM_PROCID").value_or(0) == 0;
    job.is_first_of_host = number_of(environment, "SLURM_LOCALID").value_or(0) == 0;
  } else if (const auto nodes = environment("SLURM_JOB_NODELIST")) {
    job.kind = Job::Kind::allocation;
    job.key = "slurm-" + id;
    job.hosts = slurm_hosts(environment, *nodes, "SLURM_TASKS_PER_NODE");
  }
  job.num_hosts = static_cast<int>(job.hosts.size());
  return job;
}

/// The variables of a starter that gives each process its number.
struct Starter {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* num_hosts;
  const char* key;
};
constexpr std::array kStarters{
    Starter{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_MCA_orte_num_nodes", "PMIX_NAMESPACE"},
    Starter{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
            "TORCHELASTIC_RUN_ID"},
};

Job job_of_starter(const Environment& environment, const Starter& starter) {
  const int rank = number_of(environment, starter.rank).value_or(0);
  const int size = number_of(environment, starter.size).value_or(1);
  const int local_rank = number_of(environment, starter.local_rank).value_or(0);
  const int local_size = std::max(1, number_of(environment, starter.local_size).value_or(1));
  return {
      .kind = Job::Kind::process,
      .name = starter.name,
      .key = fmt::format("{}-{}", starter.name, environment(starter.key).value_or("job")),
      // Unless it is told, as if all hosts had as many processes as this one.
      .num_hosts =
          number_of(environment, starter.num_hosts).value_or((size + local_size - 1) / local_size),
      .num_processes = size,
      .own_processes = local_size,
      .rendezvous = rendezvous_in(environment),
      .is_first = rank == 0,
      .is_first_of_host = local_rank == 0};
}

}  // namespace

Environment own_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

Job job_of(const Environment& environment) {
  for (const Starter& starter : kStarters)
    if (number_of(environment, starter.size).value_or(1) > 1)
      return job_of_starter(environment, starter);
  if (const auto id = environment("SLURM_JOB_ID")) return slurm_job(environment, *id);
  return {};
}

std::int64_t seconds_left(const Environment& environment, std::int64_t now) {
  const std::string variable = "SLURM_JOB_END_TIME";
  const auto text = environment(variable);
  return text && !text->empty()
             ? std::max<std::int64_t>(0, number_in<std::int64_t>(*text, variable) - now)
             : 0;
}

double own_time_limit() {
  const std::int64_t left = seconds_left(own_environment(), std::time(nullptr));
  return left > 0 ? actors::now_s() + static_cast<double>(left) : 0;
}

}  // namespace troupe::launch
