#include <boost/test/unit_test.hpp>
#include <sstream>

#include "launch/manifest/resolve/run_spec.h"
#include "launch/manifest/toml/synonyms.h"
#include "tests/launch/manifest_text.h"

// Tests how [data_parallel] becomes a DataParallelSpec, and what of it is refused.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(data_parallel_keys_test)

BOOST_AUTO_TEST_CASE(gradients_are_reduced_as_the_manifest_says) {
  using stages::DataParallelSpec;
  const auto read = [](std::vector<std::string> overrides) {
    for (std::string& text : overrides) text = "data_parallel." + text;
    return launch::to_run_spec(checked(kSmallManifest, overrides)).data_parallel;
  };
  const auto bad = [](std::vector<std::string> overrides, const std::vector<std::string>& words) {
    for (std::string& text : overrides) text = "data_parallel." + text;
    refused(overrides, words);
  };
  BOOST_TEST((read({}) == DataParallelSpec{}));
  BOOST_TEST((read({"bucket_size=500"}) == DataParallelSpec{.buckets = {.size = 500}}));
  BOOST_TEST((read({"num_buckets=4", "overlap_grad_reduce=false", "grad_reduce_dtype=bfloat16",
                    "check_for_nan=true", "large_grad_norm=2"}) ==
              DataParallelSpec{.buckets = {.count = 4},
                               .overlaps = false,
                               .wire = tensor::DType::bf16,
                               .checks_finite = true,
                               .large_norm = 2}));
  const auto divided =
      launch::to_run_spec(checked(kSmallManifest, {"mesh.dp=2", "data_parallel.sharding=optim",
                                                   "data_parallel.overlap_param_gather=false"}));
  BOOST_TEST((divided.data_parallel == DataParallelSpec{.division = stages::StateDivision::optim,
                                                        .overlaps_gather = false}));
  bad({"bucket_size=0"}, {"bucket_size", "at least 1"});
  bad({"bucket_size=1000", "num_buckets=2"}, {"bucket_size = 1000", "num_buckets = 2"});
  bad({"num_buckets=500"}, {"num_buckets = 500", "has 57", "at most 57"});
  bad({"grad_reduce_dtype=float16"}, {"float16", "'bfloat16'", "'float32'"});
  bad({"large_grad_norm=-1.0"}, {"large_grad_norm", "at least 0"});
  bad({"sharding=zero2"}, {"sharding", "zero2", "'none'", "'optim'"});
  bad({"sharding=optim"}, {"sharding = 'optim'", "dp = 1", "dp = 2"});
  bad({"sharding=optim_grads"}, {"sharding = 'optim_grads'", "dp = 1", "dp = 2"});
  refused({"mesh.dp=2", "data_parallel.sharding=optim", "data_parallel.on_difference=repair",
           "recovery.neighbour_copies=false"},
          {"on_difference = 'repair'", "'optim'", "neighbour_copies = false", "leave it out"});
  bad({"overlap_param_gather=false"}, {"overlap_param_gather", "'none'", "leave it out"});
}

BOOST_AUTO_TEST_CASE(gradients_and_weights_are_divided_as_the_manifest_says) {
  using stages::DataParallelSpec;
  using stages::StateDivision;
  const auto with_two = [](std::vector<std::string> overrides) {
    for (std::string& text : overrides) text = "data_parallel." + text;
    overrides.push_back("mesh.dp=2");
    return overrides;
  };
  const auto read = [&](const std::vector<std::string>& overrides) {
    return launch::to_run_spec(checked(kSmallManifest, with_two(overrides))).data_parallel;
  };
  const auto bad = [&](const std::vector<std::string>& overrides,
                       const std::vector<std::string>& words) {
    refused(with_two(overrides), words);
  };
  BOOST_TEST(
      (read({"sharding=optim_grads"}) == DataParallelSpec{.division = StateDivision::optim_grads}));
  BOOST_TEST((read({"sharding=optim_grads", "reduce_every=step"}) ==
              DataParallelSpec{.division = StateDivision::optim_grads, .every_microbatch = false}));
  BOOST_TEST(
      (read({"sharding=optim_grads_params", "prefetch=3", "reshard_after_forward=false"}) ==
       DataParallelSpec{
           .division = StateDivision::optim_grads_params, .prefetch = 3, .reshards = false}));
  bad({"prefetch=2"}, {"prefetch = 2", "'none' keeps them whole", "leave it out"});
  bad({"sharding=optim_grads", "reshard_after_forward=false"},
      {"reshard_after_forward = false", "'optim_grads' keeps them whole", "'optim_grads_params'"});
  bad({"sharding=optim_grads_params", "bucket_size=5"}, {"bucket_size = 5", "leave it out"});
  bad({"sharding=optim_grads_params", "num_buckets=5"}, {"num_buckets = 5", "leave it out"});
  bad({"sharding=optim", "reduce_every=microbatch"},
      {"reduce_every = 'microbatch'", "'optim' keeps them whole", "nearest: 'step'"});
  bad({"sharding=optim_grads_params", "prefetch=-1"}, {"prefetch", "at least 0"});
  bad({"reduce_every=week"}, {"reduce_every", "week", "'microbatch'"});
}

BOOST_AUTO_TEST_CASE(keys_of_other_trainers_are_named) {
  for (const launch::Synonyms& row : launch::kMegatronKeys) {
    std::istringstream names{std::string(row.names)};
    for (std::string name; names >> name;)
      refused({name + "=true"}, {name, "Megatron-LM", std::string(row.here)});
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
