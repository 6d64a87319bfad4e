#include "launch/manifest/checks/check.h"

#include <boost/test/unit_test.hpp>

#include "launch/manifest/inputs/placement.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

// Tests values that are derived from others, and values that do not fit together.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(check_test)

BOOST_AUTO_TEST_CASE(derived_values_follow_the_others) {
  const auto m = checked(kSmallManifest);
  BOOST_TEST(m->model.head_dim == 16);
  BOOST_TEST(m->optimizer.decay_steps == 0);
  BOOST_TEST(m->schedule.chunks == 1);
  BOOST_TEST(m->cluster.pin.value());
  BOOST_TEST(m->cluster.spin.value());
  const auto o = checked(kSmallManifest, {"mesh.pp=3", "mesh.dp=2", "optimizer.decay=cosine",
                                          "optimizer.warmup_steps=3", "cluster.threads=1"});
  BOOST_TEST(o->optimizer.decay_steps == 9);
  BOOST_TEST(o->cluster.pin.value());    // 6 threads on 8 cores
  BOOST_TEST(!o->cluster.spin.value());  // but not 12
  BOOST_TEST(!checked(kSmallManifest, {"cluster.threads=9"})->cluster.pin.value());
  BOOST_TEST(
      checked(kSmallManifest, {"cluster.threads=9", "cluster.pin=true"})->cluster.pin.value());
  BOOST_TEST(checked(kSmallManifest, {"optimizer.decay=wsd"})->optimizer.decay_steps == 1);
  BOOST_TEST(checked(kSmallManifest, {"schedule.kind=interleaved", "mesh.pp=2"})->schedule.chunks ==
             2);
  auto unnamed = launch::Manifest::parse("[data]\nfiles='x'\n", "dir/first.toml", {});
  launch::resolve(unnamed, kMachine);
  BOOST_TEST(unnamed->name == "first");
  BOOST_TEST(unnamed->dir == std::filesystem::current_path() / "runs/first");
}

BOOST_AUTO_TEST_CASE(recompute_has_modes_that_fit_the_model) {
  using stages::Recompute;
  const auto read = [](const std::vector<std::string>& overrides) {
    return launch::to_run_spec(checked(kSmallManifest, overrides)).recompute;
  };
  BOOST_TEST((read({}) == Recompute{}));
  BOOST_TEST((read({"recompute.mode=selective"}) == Recompute{.mode = Recompute::Mode::selective}));
  BOOST_TEST((read({"recompute.mode=output", "recompute.kept_microbatches=2"}) ==
              Recompute{.mode = Recompute::Mode::output, .kept_microbatches = 2}));
  const Recompute full{.mode = Recompute::Mode::full,
                       .method = Recompute::Method::block,
                       .num_layers = 6,
                       .distribute_saved_activations = true};
  BOOST_TEST((read({"recompute.mode=full", "recompute.method=block", "recompute.num_layers=6",
                    "recompute.distribute_saved_activations=true", "mesh.tp=2"}) == full));
  refused({"recompute.mode=seletive"}, {"recompute.mode", "seletive", "selective"});
  refused({"recompute.mode=full", "recompute.method=blok"}, {"recompute.method", "blok", "block"});
  refused({"recompute.method=block"}, {"recompute.method", "full", "'none'"});
  refused({"recompute.mode=output", "recompute.num_layers=2"}, {"num_layers = 2", "'output'"});
  refused({"recompute.mode=full", "recompute.num_layers=7"},
          {"num_layers = 7", "num_hidden_layers = 6", "at most 6"});
  refused({"recompute.kept_microbatches=1"}, {"kept_microbatches", "'none'"});
  refused({"recompute.mode=full", "recompute.distribute_saved_activations=true",
           "mesh.sequence_parallel=true", "mesh.tp=2"},
          {"distribute_saved_activations", "sequence_parallel"});
}

BOOST_AUTO_TEST_CASE(a_model_of_kind_gpt2_has_its_own_keys) {
  const std::string gpt2 = "model.kind=gpt2", heads = "model.num_key_value_heads=6";
  const auto m = checked(kSmallManifest, {gpt2, heads});
  BOOST_TEST(m->model.max_position_embeddings == 64);
  BOOST_TEST(m->model.tie_word_embeddings);
  BOOST_TEST(!checked(kSmallManifest)->model.tie_word_embeddings);
  const auto model =
      launch::to_run_spec(checked(kSmallManifest, {gpt2, heads, "model.layer_norm_epsilon=0.001",
                                                   "model.max_position_embeddings=80",
                                                   "model.tie_word_embeddings=false"}))
          .model;
  BOOST_TEST((model.kind == stages::ModelKind::gpt2));
  BOOST_TEST(model.layer_norm_epsilon == 0.001);
  BOOST_TEST(model.max_position_embeddings == 80);
  BOOST_TEST(!model.tie_word_embeddings);
  // What launch wrote is read again, although it holds the keys of both kinds.
  launch::Manifest again = launch::Manifest::parse(m.to_toml(), "manifest.toml", {});
  launch::resolve(again, kMachine);
  BOOST_CHECK_NO_THROW(launch::check(again));
  BOOST_TEST(again.to_toml() == m.to_toml());

  refused({gpt2}, {"m.toml:", "num_key_value_heads = 2", "gpt2", "nearest: 6"});
  refused({gpt2, heads, "model.head_dim=32"}, {"head_dim = 32", "nearest: 16"});
  refused({gpt2, heads, "model.rms_norm_eps=1e-5"},
          {"model.rms_norm_eps", "'llama'", "'gpt2'", "nearest: model.layer_norm_epsilon"});
  refused({gpt2, heads, "model.rope_theta=10000"}, {"model.rope_theta", "leave it out"});
  refused({"model.layer_norm_epsilon=1e-5"},
          {"model.layer_norm_epsilon", "'gpt2'", "'llama'", "nearest: model.rms_norm_eps"});
  refused({gpt2, heads, "model.attention_bias=true"}, {"model.attention_bias", "leave it out"});
  refused({gpt2, heads, "model.rope_type=yarn"}, {"model.rope_type", "leave it out"});
  refused({gpt2, heads, "model.max_position_embeddings=48"},
          {"m.toml:", "batch.seq_len = 64", "at most model.max_position_embeddings = 48",
           "nearest: seq_len = 48"});
  refused({"model.kind=gpt3"}, {"model.kind", "gpt3", "gpt2", "llama"});
  refused({gpt2, heads, "mesh.tp=4"}, {"num_attention_heads = 6", "nearest: tp = 2"});
}

BOOST_AUTO_TEST_CASE(rotary_embeddings_have_the_keys_of_their_type) {
  using tensor::RotaryType;
  const auto model = [](const std::vector<std::string>& overrides) {
    return launch::to_run_spec(checked(kSmallManifest, overrides)).model;
  };
  BOOST_TEST((model({}).rotary == tensor::Rotary{.original_max_position_embeddings = 64}));
  BOOST_TEST(
      (model({"model.rope_type=dynamic", "model.rope_factor=3", "model.max_position_embeddings=32"})
           .rotary == tensor::Rotary{.type = RotaryType::dynamic,
                                     .factor = 3,
                                     .original_max_position_embeddings = 32}));
  const tensor::Rotary yarn{.type = RotaryType::yarn,
                            .theta = 500,
                            .factor = 2,
                            .original_max_position_embeddings = 16,
                            .beta_fast = 20,
                            .beta_slow = 2,
                            .attention_factor = 1.5,
                            .mscale = 0.5,
                            .mscale_all_dim = 0.25,
                            .truncate = false};
  BOOST_TEST(
      (model({"model.rope_type=yarn", "model.rope_theta=500", "model.rope_factor=2",
              "model.rope_original_max_position_embeddings=16", "model.rope_beta_fast=20",
              "model.rope_beta_slow=2", "model.rope_attention_factor=1.5", "model.rope_mscale=0.5",
              "model.rope_mscale_all_dim=0.25", "model.rope_truncate=false"})
           .rotary == yarn));
  const tensor::Rotary llama3 =
      model({"model.rope_type=llama3", "model.rope_factor=8", "model.rope_low_freq_factor=2",
             "model.rope_high_freq_factor=5"})
          .rotary;
  BOOST_TEST((llama3 == tensor::Rotary{.type = RotaryType::llama3,
                                       .factor = 8,
                                       .original_max_position_embeddings = 64,
                                       .low_freq_factor = 2,
                                       .high_freq_factor = 5}));
  BOOST_TEST(model({"model.attention_bias=true"}).attention_bias);
  BOOST_TEST(model({"model.mlp_bias=true"}).mlp_bias);

  refused({"model.rope_type=su"}, {"model.rope_type", "su", "yarn", "longrope"});
  refused({"model.rope_type=linear"}, {"'linear' needs model.rope_factor"});
  refused({"model.rope_factor=2"}, {"model.rope_factor", "'default'", "leave it out"});
  refused({"model.rope_type=linear", "model.rope_factor=2", "model.rope_beta_fast=3"},
          {"model.rope_beta_fast", "'linear'", "leave it out"});
  refused({"model.rope_type=linear", "model.rope_factor=0.5"},
          {"--set model.rope_factor", "rope_factor = 0.5", "at least 1"});
  refused({"model.rope_type=dynamic", "model.rope_factor=2",
           "model.rope_original_max_position_embeddings=16"},
          {"--set model.rope_original_max_position_embeddings", "16", "64"});
}

BOOST_AUTO_TEST_CASE(ports_are_a_range) {
  for (const char* ports : {"29600-29600", "1-65535"})
    BOOST_TEST(checked(kSmallManifest, {std::string("cluster.ports=") + ports})->cluster.ports ==
               ports);
  for (const char* ports :
       {"29600", "29700-29600", "0-5", "1-65536", "-1-5", "a-b", "1-2-3", "1-", "1 - 2"})
    refused({std::string("cluster.ports=\"") + ports + "\""},
            {std::string("cluster.ports = \"") + ports + "\"", "\"29600-29700\""});
}

BOOST_AUTO_TEST_CASE(an_empty_path_is_refused_by_its_key) {
  refused({"run.dir=\"\""}, {"run.dir is empty"});
  refused({"data.tokenizer=\"\""}, {"data.tokenizer is empty"});
  refused({"data.files=[\"\"]"}, {"data.files holds an empty name"});
  refused({"eval.files=[\"a\", \"\"]"}, {"eval.files holds an empty name"});
}

BOOST_AUTO_TEST_CASE(paths_are_meant_from_where_they_are_written) {
  const TempDir dir;
  const auto file = dir.write("m.toml",
                              "[data]\nfiles = [\"a.txt\", \"/b.txt\"]\ntokenizer = \"t.model\"\n"
                              "[checkpoint]\nresume = \"../old/step-3\"\n");
  auto m = launch::Manifest::read(file, std::vector<std::string>{"eval.files=c.txt"});
  launch::resolve(m, kMachine);
  BOOST_TEST((m->text.files == std::vector<std::string>{dir / "a.txt", "/b.txt"}));
  BOOST_TEST(m->data.tokenizer == (dir / "t.model").string());
  BOOST_TEST(m->checkpoint.resume == (dir.path().parent_path() / "old/step-3").string());
  BOOST_TEST(m->eval_text.files.at(0) == (std::filesystem::current_path() / "c.txt").string());
}

BOOST_AUTO_TEST_CASE(an_impossible_mesh_is_refused_with_its_numbers) {
  refused({"mesh.pp=7"},
          {"--set mesh.pp=7:", "mesh.pp", "7", "num_hidden_layers = 6", "at most pp = 6"});
  refused({"mesh.pp=3", "schedule.kind=interleaved", "schedule.chunks=3"},
          {"3 * 3 = 9", "6", "at most pp = 2"});
  refused({"schedule.kind=interleaved", "schedule.chunks=7"}, {"at most chunks = 6"});
  refused({"mesh.pp=7", "schedule.kind=interleaved", "schedule.chunks=7"},
          {"7 * 7 = 49", "at most pp = 6 with one chunk"});
  refused({"mesh.tp=4"}, {"mesh.tp = 4", "num_attention_heads = 6", "nearest: tp = 2"});
  refused({"mesh.tp=2", "mesh.sequence_parallel=true", "batch.seq_len=15"},
          {"batch.seq_len = 15", "nearest: tp = 1"});
}

BOOST_AUTO_TEST_CASE(who_has_the_layout_looked_for_gives_no_part_of_it) {
  checked(kSmallManifest, {"mesh.auto=true", "batch.micro=2", "recompute.mode=full",
                           "data_parallel.sharding=optim"});
  for (const char* given : {"mesh.pp=1", "mesh.dp=2", "mesh.tp=2", "mesh.sequence_parallel=true",
                            "mesh.layout=even", "schedule.kind=1f1b", "schedule.chunks=1"})
    refused({"mesh.auto=true", given},
            {std::string(given).substr(0, std::string(given).find('=')), "mesh.auto = true"});
}

BOOST_AUTO_TEST_CASE(an_indivisible_batch_is_refused_with_its_factors) {
  refused({"batch.micro=3"}, {"batch.global = 16", "3 * 1 = 3", "15 or 18"});
  refused({"mesh.dp=3"}, {"m.toml:19:10:", "2 * 3 = 6", "12 or 18"});
  refused({"batch.micro=32"}, {"16", "32 * 1 = 32", "global = 32"});
  refused({"batch.micro=1", "batch.global=16777216"}, {"16777216", "larger batch.micro"});
  refused({"batch.seq_len=1048576", "batch.micro=4096", "batch.global=4096",
           "model.vocab_size=16777216"},
          {"fit no machine"});
}

BOOST_AUTO_TEST_CASE(a_model_that_does_not_divide_names_its_fields) {
  refused({"model.num_attention_heads=5"}, {"num_attention_heads", "96", "5", "95 or 100"});
  refused({"model.num_key_value_heads=4"}, {"num_key_value_heads", "6", "4"});
  refused({"model.head_dim=15"}, {"head_dim", "15"});
}

BOOST_AUTO_TEST_CASE(texts_are_read_by_rules) {
  const auto rules = [](const std::vector<std::string>& overrides) {
    return launch::to_run_spec(checked(kSmallManifest, overrides)).data.rules;
  };
  BOOST_TEST((rules({}) == stages::TextRules{}));
  const std::vector<std::string> all{"data.fields={prompt = \"q\", response = \"a b\"}",
                                     "data.on_bad_line=skip", "data.bos=<s>",
                                     "data.end_of_document=none", "data.date=2024-07-26"};
  const stages::TextRules expected{.fields = {{"prompt", "q"}, {"response", "a b"}},
                                   .on_bad_line = stages::BadLines::skip,
                                   .date = "2024-07-26",
                                   .bos = "<s>",
                                   .end_of_document = "none"};
  BOOST_TEST((rules(all) == expected));
  // A resolved manifest says the same.
  const std::string text = checked(kSmallManifest, all).to_toml();
  BOOST_TEST((launch::parse_resolved(text).data.rules == expected), text);
  refused({"data.fields={promt = \"q\"}"}, {"data.fields maps 'promt'", "did you mean 'prompt'"});
  refused({"data.fields={prompt = 1}"}, {"data.fields must be a table of texts"});
  refused({"data.fields=[\"prompt\"]"},
          {"data.fields must be a table of texts", "not another list"});
  refused({"data.on_bad_line=skp"}, {"did you mean 'skip'"});
  refused({"data.date=26 July"}, {"data.date", "'26 July'", "2024-07-26"}, ErrorKind::data);
}

BOOST_AUTO_TEST_CASE(a_loss_on_responses_needs_documents) {
  refused({"data.loss_on=response"}, {"data.loss_on = 'response'", "'joined'", "'packed'"});
  refused({"data.loss_on=responses", "batch.documents=packed"}, {"did you mean 'response'"});
  const auto m = checked(kSmallManifest, {"data.loss_on=response", "batch.documents=padded"});
  BOOST_TEST((launch::to_run_spec(m).data.loss_on == stages::LossOn::response));
}

BOOST_AUTO_TEST_CASE(settings_that_need_others_say_which) {
  refused({"eval.interval=5"}, {"eval.interval = 5", "eval.files"});
  refused({"eval.keep_gradients=false"}, {"eval.keep_gradients = false", "eval.interval = 0"});
  refused({"eval.keep_gradients=false", "eval.interval=5", "eval.files=[\"e.txt\"]",
           "cluster.device=cuda"},
          {"eval.keep_gradients = false", "cluster.device = 'cuda'"});
  refused({"checkpoint.weights_only=true"}, {"checkpoint.resume"});
  refused({"data.files=[]"}, {"data.files"});
  refused({"optimizer.min_lr=1.0"}, {"optimizer.min_lr = 1", "optimizer.lr = 0.001"});
  refused({"optimizer.decay=linear", "optimizer.warmup_steps=12"},
          {"warmup_steps = 12", "at most 11"});
  refused({"optimizer.decay=linear", "optimizer.decay_steps=0"}, {"decay_steps", "at least 1"});
  refused({"run.dir=\"/a\\u0000b\""}, {"run.dir", "zero byte"});
  refused({"data.files=[\"/a\", \"/\\u0000\"]"}, {"data.files", "zero byte"});
  refused({"run.name=a/b"}, {"run.name", "'/'"});
  refused({"run.name=\"\""}, {"run.name"});
}

BOOST_AUTO_TEST_CASE(a_worker_reads_the_same_spec_from_the_resolved_text) {
  auto m =
      checked(kSmallManifest,
              {"run.seed=9223372036854775807", "model.dtype=bfloat16", "optimizer.decay=wsd",
               "optimizer.betas=[0.8, 0.123456789012345678]", "mesh.dp=2", "checkpoint.keep=7"});
  m.resolve(m->text.tokens, std::string("/cache/tokens"));
  const auto spec = launch::parse_resolved(m.to_toml());
  BOOST_TEST(spec.name == "small");
  BOOST_TEST(spec.dir == "/runs/small");
  BOOST_TEST(spec.seed == 9223372036854775807u);
  BOOST_TEST((spec.model == launch::to_run_spec(m).model));
  BOOST_TEST((spec.optimizer == launch::to_run_spec(m).optimizer));
  BOOST_TEST((spec.model.dtype == tensor::DType::bf16));
  BOOST_TEST(spec.optimizer.beta2 == 0.123456789012345678);
  BOOST_TEST((spec.optimizer.decay == stages::Decay::wsd));
  BOOST_TEST(spec.optimizer.max_steps == 12);
  BOOST_REQUIRE(spec.data.sources.size() == 1u);
  BOOST_TEST(spec.data.sources[0].tokens == "/cache/tokens");
  BOOST_TEST(spec.mesh.dp == 2);
  BOOST_TEST(spec.num_microbatches() == 4);
  BOOST_TEST(spec.checkpoint.keep == 7);
  expect_error(ErrorKind::manifest, {"run.name"},
               [] { launch::parse_resolved("[run]\nseed = 1\n"); });
}

BOOST_AUTO_TEST_CASE(stages_name_hosts_of_the_cluster) {
  const std::string hosts = "cluster.hosts=[\"n[1-3]:2\"]";
  const launch::Manifest m =
      checked(kSmallManifest,
              {"mesh.pp=3", hosts, "mesh.stage=[{hosts=\"n[2-3]\"},{hosts=[0]},{device=\"cpu\"}]"});
  const launch::Manifest again = checked(m.to_toml());
  for (const launch::Manifest* one : {&m, &again})
    BOOST_TEST((launch::to_run_spec(*one).cluster.stage_hosts ==
                std::vector<std::vector<std::string>>{{"n2", "n3"}, {"n1"}, {}}));
  const auto refused_stage = [&](const std::string& stage, const std::vector<std::string>& words) {
    refused({"mesh.pp=2", hosts, "mesh.stage=[{}," + stage + "]"}, words);
  };
  refused_stage("{hosts=\"n4\"}", {"[[stage]] 1", "'n4'", "did you mean 'n"});
  refused_stage("{hosts=3}", {"[[stage]] 1", "number 3", "3 hosts", "0 to 2"});
  refused_stage("{hosts=-1}", {"stage.hosts", "at least 0"});
  refused_stage("{hosts=\"n[2\"}", {"[[stage]] 1", "brackets"});
  refused_stage("{device=\"cudo\"}", {"[[stage]] 1", "'cudo'", "did you mean 'cuda'"});
  refused_stage("{device=\"gpu\"}", {"[[stage]] 1", "gpu is device = 'cuda' here"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
