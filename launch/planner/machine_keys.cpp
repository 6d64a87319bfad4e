#include "launch/planner/machine_keys.h"

#include <array>

namespace troupe::launch {
namespace {

using schedules::MachineModel;

#define TROUPE_NUMBER(table, name) \
#table, #name, [](MachineModel & machine) -> double& { return machine.table.name; }

constexpr std::array kKeys{
    MachineKey{TROUPE_NUMBER(device, bfloat16_tflops), false, "Dense peak of products in bfloat16"},
    MachineKey{TROUPE_NUMBER(device, float32_tflops), false, "Dense peak of products in float32"},
    MachineKey{TROUPE_NUMBER(device, units), false, "Multiprocessors, or cores"},
    MachineKey{TROUPE_NUMBER(device, sustained), false,
               "Share of the peak that they reach while they have whole tiles to do"},
    MachineKey{TROUPE_NUMBER(device, memory_gb_per_s), false, "Line rate of its memory"},
    MachineKey{TROUPE_NUMBER(device, memory_share), false,
               "Share of that rate which streaming kernels reach"},
    MachineKey{TROUPE_NUMBER(device, memory_gib), false, "Memory in 2^30 bytes"},
    MachineKey{TROUPE_NUMBER(device, kernel_us), false, "What each kernel takes besides"},
    MachineKey{TROUPE_NUMBER(device, attention_forward), false,
               "Share of the peak that fused attention reaches"},
    MachineKey{TROUPE_NUMBER(device, attention_backward), false, "The same of its backward"},
    MachineKey{TROUPE_NUMBER(host, devices), false, "Devices of a host"},
    MachineKey{TROUPE_NUMBER(host, gb_per_s), false,
               "Bus bandwidth that a collective of the host's devices reaches"},
    MachineKey{TROUPE_NUMBER(host, hop_us), false, "Latency of a step of a ring, or of a message"},
    MachineKey{TROUPE_NUMBER(host, base_us), false, "What each collective takes besides"},
    MachineKey{TROUPE_NUMBER(host, busy_share), false,
               "What a device keeps of its rates while all of the host compute"},
    MachineKey{TROUPE_NUMBER(network, gb_per_s), false, "Line rate of a device, each way"},
    MachineKey{TROUPE_NUMBER(network, share), false, "Share of it that is reached"},
    MachineKey{TROUPE_NUMBER(network, hop_us), false, "Latency of a message between hosts"},
    MachineKey{TROUPE_NUMBER(software, send_us), true, "What a message takes its sender"},
    MachineKey{TROUPE_NUMBER(software, interference), true,
               "Share of a collective that no work beside it hides"},
    MachineKey{TROUPE_NUMBER(software, optimizer_bytes), false,
               "Bytes that a step moves for each parameter outside of its passes"},
};

#undef TROUPE_NUMBER

constexpr std::array kChoices{
    MachineChoice{
        "device",
        "kind",
        {"gpu", "cpu"},
        [](MachineModel& machine, bool second) {
          machine.device.kind = second ? MachineModel::Kind::cpu : MachineModel::Kind::gpu;
        },
        [](const MachineModel& machine) { return machine.device.kind == MachineModel::Kind::cpu; },
        "Whose memory is counted"},
    MachineChoice{"software",
                  "attention",
                  {"fused", "unfused"},
                  [](MachineModel& machine, bool second) {
                    machine.software.attention =
                        second ? MachineModel::Attention::unfused : MachineModel::Attention::fused;
                  },
                  [](const MachineModel& machine) {
                    return machine.software.attention == MachineModel::Attention::unfused;
                  },
                  "Whether scores go through memory"},
    MachineChoice{"software",
                  "sends",
                  {"overlapped", "blocking"},
                  [](MachineModel& machine, bool second) {
                    machine.software.sends =
                        second ? schedules::Sends::blocking : schedules::Sends::overlapped;
                  },
                  [](const MachineModel& machine) {
                    return machine.software.sends == schedules::Sends::blocking;
                  },
                  "Whether a rank waits while it sends"},
};

}  // namespace

std::span<const MachineKey> machine_keys() {
  return kKeys;
}

std::span<const MachineChoice> machine_choices() {
  return kChoices;
}

}  // namespace troupe::launch
