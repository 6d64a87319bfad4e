#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tensor/libraries/device_library.h"
#include "tests/gpu/first_questions/child.h"
#include "tests/gpu/first_questions/questions.h"
#include "tests/gpu/presence.h"

// Asks a GPU what its documentation leaves open, and prints a line for each answer. Ends with 77 on
// a machine without a GPU, and with 1 if a question got no answer.

namespace {

using troupe::test::Child;
using troupe::test::Line;

struct Question {
  const char* text;
  std::string (*ask)();
};

constexpr Question kQuestions[] = {
    {"which GPUs are there", troupe::test::devices},
    {"what does the context of a second process take", troupe::test::contexts},
    {"how fast are copies", troupe::test::copy_bandwidth},
    {"can shared memory be pinned", troupe::test::registered_memory},
    {"can two processes use one allocation", troupe::test::shared_allocation},
    {"can a stream wait for an event of another process", troupe::test::shared_event},
    {"what if the owner of an allocation is killed", troupe::test::death_of_the_owner},
    {"what if the user of an allocation is killed while it writes",
     troupe::test::death_of_the_user},
    {"does a stream go on that waits for a killed process", troupe::test::wait_for_a_dead_process},
    {"can two ranks of NCCL share a GPU", troupe::test::two_nccl_ranks},
    {"what does the backward of attention work in (32 heads of 128, 8 for keys)",
     troupe::test::attention_workspace},
};

/// Whether there is no GPU, asked in another process: this one must not call CUDA.
bool is_without_gpu() {
  Child child([](Line& parent) {
    parent.send(troupe::test::has_no_gpu(troupe::tensor::report_cuda_devices()));
  });
  return child.line().receive<bool>();
}

}  // namespace

int main() {
  if (is_without_gpu()) {
    std::puts("skipped: no GPU");
    return troupe::test::kSkipped;
  }
  int code = EXIT_SUCCESS;
  for (const Question& question : kQuestions) {
    try {
      std::printf("%s? %s\n", question.text, question.ask().c_str());
    } catch (const std::exception& error) {
      std::printf("%s? no answer: %s\n", question.text, error.what());
      code = EXIT_FAILURE;
    }
    std::fflush(stdout);
  }
  return code;
}
