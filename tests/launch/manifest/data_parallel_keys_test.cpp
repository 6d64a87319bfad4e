#include "launch/manifest/data_parallel_keys.h"

#include <boost/test/unit_test.hpp>

#include "launch/manifest/defaults.h"
#include "launch/manifest/run_spec.h"
#include "tests/launch/manifest_text.h"

// Tests how [data_parallel] becomes a DataParallelSpec, and what of it is refused.

namespace troupe::test {

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
  bad({"sharding=optim_grads"}, {"'optim_grads'", "nearest: 'optim'"});
  refused({"mesh.dp=2", "data_parallel.sharding=optim", "data_parallel.on_difference=repair"},
          {"on_difference = 'repair'", "'optim'", "leave it out"});
  bad({"overlap_param_gather=false"}, {"overlap_param_gather", "'none'", "leave it out"});
  for (const launch::ForeignKey& key : launch::foreign_keys())
    refused({std::string(key.table) + "." + std::string(key.name) + "=true"},
            {std::string(key.name), "Megatron-LM", std::string(key.instead)});
}

}  // namespace troupe::test
