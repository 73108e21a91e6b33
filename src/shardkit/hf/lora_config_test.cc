// Tests of what is read from adapter_config.json and lora_train_meta.json, and of what is written.
#include "shardkit/hf/lora_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "shardkit/json/parse.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::hf {
namespace {

using testing::Fails;
using testing::IsOk;

TEST(AdapterConfig, IsRead) {
  const auto settings = parse_adapter_config(R"({
      "peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": true, "use_dora": false,
      "fan_in_fan_out": true, "task_type": "CAUSAL_LM", "init_lora_weights": "pissa",
      "rank_pattern": {"down_proj": 4}, "alpha_pattern": {"v_proj": 2.5},
      "use_qalora": true, "arrow_config": null, "layer_replication": [], "lora_dropout": NaN})")
                            .value();
  EXPECT_EQ(settings.rank, 8);
  EXPECT_EQ(settings.alpha, 16.0);
  EXPECT_TRUE(settings.rslora);
  EXPECT_FALSE(settings.dora);
  EXPECT_EQ(settings.fan_in_fan_out, true);
  EXPECT_EQ(settings.task_type, "CAUSAL_LM");
  EXPECT_EQ(settings.initialization, "pissa");
  EXPECT_EQ(settings.foreign_options, std::vector<std::string>{"use_qalora"});
  EXPECT_EQ(rank_of(settings, "m.down_proj").value(), 4);
  EXPECT_EQ(rank_of(settings, "m.v_proj").value(), 8);
  EXPECT_EQ(alpha_of(settings, "m.v_proj").value(), 2.5);
  EXPECT_EQ(alpha_of(settings, "m.down_proj").value(), 16.0);
}

TEST(AdapterConfig, AnOptionIsSetWhereItIsTrueToPython) {
  for (const char* value : {"0", "0.0", "\"\"", "false", "null", "[]", "{}"}) {
    const auto settings = parse_adapter_config(fmt::format(
        R"({{"use_rslora": {0}, "use_dora": {0}, "fan_in_fan_out": {0}, "use_qalora": {0}}})",
        value));
    ASSERT_THAT(settings, IsOk()) << value;
    EXPECT_FALSE(settings->rslora || settings->dora) << value;
    EXPECT_FALSE(settings->fan_in_fan_out.value_or(false)) << value;
    EXPECT_TRUE(settings->foreign_options.empty()) << value;
  }
  for (const char* value : {"1", "true", "\"yes\""}) {
    const auto settings =
        parse_adapter_config(fmt::format(R"({{"use_rslora": {0}, "fan_in_fan_out": {0}}})", value));
    ASSERT_THAT(settings, IsOk()) << value;
    EXPECT_TRUE(settings->rslora && settings->fan_in_fan_out == true) << value;
  }
}

TEST(AdapterConfig, ZeroAndNullAreAnUnknownAlpha) {
  for (const char* text : {R"({"r": 8, "lora_alpha": 0})", R"({"r": 8, "lora_alpha": null})",
                           R"({"r": 8, "lora_alpha": 0.0})", R"({"r": 8})"})
    EXPECT_EQ(parse_lora_train_meta(text).value().alpha, std::nullopt) << text;
}

TEST(AdapterConfig, TellsWhichBiasesWereTrained) {
  using Bias = LoraSettings::Bias;
  const auto bias = [](const char* text) { return parse_adapter_config(text).value().bias; };
  EXPECT_EQ(bias(R"({"r": 8})"), Bias::kNone);
  EXPECT_EQ(bias(R"({"bias": "none"})"), Bias::kNone);
  EXPECT_EQ(bias(R"({"bias": "all"})"), Bias::kAll);
  EXPECT_EQ(bias(R"({"bias": "lora_only"})"), Bias::kOfModules);
  for (const char* text : {R"({"bias": "some"})", R"({"bias": true})"})
    EXPECT_THAT(parse_adapter_config(text),
                Fails(ErrorCode::kCorrupt, "'bias' is not one of none, all, lora_only"))
        << text;
}

TEST(AdapterConfig, TellsWhichParametersHaveAdapters) {
  const auto parameters = [](const char* text) {
    return parse_adapter_config(text).value().target_parameters;
  };
  EXPECT_EQ(parameters(R"({"target_parameters": ["a.b", "c"]})"),
            (std::vector<std::string>{"a.b", "c"}));
  EXPECT_TRUE(parameters(R"({"target_parameters": null})").empty());
  for (const char* text : {R"({"target_parameters": "a"})", R"({"target_parameters": [1]})"})
    EXPECT_THAT(parse_adapter_config(text), Fails(ErrorCode::kCorrupt, "no list of names")) << text;
  EXPECT_TRUE(names_parameter("experts.down_proj", "m.experts.down_proj"));
  EXPECT_TRUE(names_parameter("m.experts.down_proj", "m.experts.down_proj"));
  EXPECT_FALSE(names_parameter("experts.down_proj", "m.shared_experts.down_proj"));
  EXPECT_FALSE(names_parameter("experts", "m.experts.down_proj"));
}

TEST(AdapterConfig, WhatIsNoNumberIsRefused) {
  for (const char* text : {R"({"lora_alpha": -1})", R"({"lora_alpha": "16"})",
                           R"({"lora_alpha": NaN})", R"({"lora_alpha": true})"})
    EXPECT_THAT(parse_adapter_config(text),
                Fails(ErrorCode::kCorrupt, "'lora_alpha' is no number"));
  for (const char* text : {R"({"r": 0})", R"({"r": 1.5})", R"({"r": -8})"})
    EXPECT_THAT(parse_adapter_config(text), Fails(ErrorCode::kCorrupt, "'r' is no number"));
  EXPECT_THAT(parse_adapter_config(R"({"rank_pattern": {"q": 0}})"),
              Fails(ErrorCode::kCorrupt, "rank_pattern"));
  EXPECT_THAT(parse_adapter_config(R"({"alpha_pattern": [1]})"),
              Fails(ErrorCode::kCorrupt, "alpha_pattern"));
  EXPECT_THAT(parse_adapter_config("[]"),
              Fails(ErrorCode::kCorrupt, "configuration is no JSON object: found array"));
  EXPECT_THAT(parse_lora_train_meta("{"), Fails(ErrorCode::kCorrupt, ""));
  EXPECT_THAT(parse_adapter_config(R"({"peft_type": "IA3"})"),
              Fails(ErrorCode::kUnsupported, "IA3"));
}

json::Value written(const LoraSettings& settings, const AdapterFacts& facts) {
  return json::parse(adapter_config_text(settings, facts)).value();
}

AdapterFacts facts() {
  AdapterFacts facts;
  facts.ranks = {{"m.q_proj", 4}, {"m.v_proj", 4}, {"m.down_proj", 2}};
  facts.target_modules = {"q_proj", "v_proj", "down_proj"};
  return facts;
}

TEST(AdapterConfig, IsMadeOfWhatTheTensorsTell) {
  LoraSettings settings;
  settings.alpha = 16;
  const json::Value config = written(settings, facts());
  EXPECT_EQ(config.find("peft_type")->get_if<std::string>()->c_str(), std::string("LORA"));
  EXPECT_EQ(config.find("r")->as_int64(), 4);
  EXPECT_EQ(config.find("lora_alpha")->as_int64(), 16);
  EXPECT_EQ(config.find("rank_pattern")->find("^m.down_proj")->as_int64(), 2);
  EXPECT_EQ(config.find("rank_pattern")->get_if<json::Object>()->members.size(), 1u);
  EXPECT_EQ(config.find("target_modules")->get_if<json::Array>()->items.size(), 3u);
  EXPECT_TRUE(config.find("modules_to_save")->is_null());
  EXPECT_TRUE(written(LoraSettings{}, facts()).find("lora_alpha")->is_null());
}

TEST(AdapterConfig, KeepsWhatAFileSaid) {
  auto settings = parse_adapter_config(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 0,
      "init_lora_weights": "pissa", "of_a_later_version": [1, 2]})")
                      .value();
  settings.alpha = 0.5;
  AdapterFacts beside = facts();
  json::Value config = written(settings, beside);
  EXPECT_EQ(*config.find("init_lora_weights")->get_if<std::string>(), "pissa");
  EXPECT_EQ(*config.find("lora_alpha")->get_if<double>(), 0.5);
  EXPECT_NE(config.find("of_a_later_version"), nullptr);
  EXPECT_EQ(config.find("target_modules"), nullptr);
  beside.with_base = true;
  beside.modules_to_save = {"score"};
  config = written(settings, beside);
  EXPECT_EQ(*config.find("init_lora_weights")->get_if<bool>(), true);
  EXPECT_EQ(config.find("modules_to_save")->get_if<json::Array>()->items.size(), 1u);
}

}  // namespace
}  // namespace shardkit::hf
