// Tests of config.json: what is read from it, the default ties, the patched dtype.
#include "shardkit/hf/config.h"

#include "shardkit/hf/golden_test_util.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::hf {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::FieldsAre;

TEST(ParseConfig, ReadsATextModel) {
  const ModelConfig config = config_of(R"({
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "dtype": "bfloat16",
    "tie_word_embeddings": true, "vocab_size": 40, "hidden_size": 24, "intermediate_size": 36,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10})");
  EXPECT_EQ(config.architectures, std::vector<std::string>{"Qwen2ForCausalLM"});
  EXPECT_EQ(config.model_type, "qwen2");
  EXPECT_TRUE(config.parts.empty());
  EXPECT_EQ(config.dtype, DType::kBFloat16);
  EXPECT_EQ(config.tie_word_embeddings, true);
  EXPECT_FALSE(config.quantized);
  EXPECT_EQ(config.sizes.vocab_size, 40);
  EXPECT_EQ(config.sizes.hidden_size, 24);
  EXPECT_EQ(config.sizes.intermediate_size, 36);
  EXPECT_EQ(config.sizes.num_attention_heads, 4);
  EXPECT_EQ(config.sizes.num_key_value_heads, 2);
  EXPECT_EQ(config.sizes.head_dim, 10);
  EXPECT_FALSE(config.sizes.num_experts);
}

TEST(ParseConfig, ReadsTheNumberOfExpertsUnderItsNames) {
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    const std::string member = std::string("{\"") + key + "\": 8}";
    EXPECT_EQ(config_of(member).sizes.num_experts, 8) << key;
    EXPECT_EQ(config_of("{\"text_config\": " + member + "}").sizes.num_experts, 8) << key;
  }
}

TEST(ParseConfig, ReadsTheFilesOfCode) {
  const ModelConfig config = config_of(R"({"auto_map": {
      "AutoConfig": "configuration_x.XConfig", "AutoModel": "pkg.modeling_x.X",
      "AutoModelForCausalLM": "pkg.modeling_x.XForCausalLM",
      "AutoTokenizer": ["tokenization_x.XTokenizer", null],
      "AutoProcessor": "owner/name--processing_x.XProcessor", "odd": 3, "none": "X"}})");
  EXPECT_EQ(config.code_files, (std::vector<std::string>{"configuration_x.py", "pkg/modeling_x.py",
                                                         "tokenization_x.py"}));
  EXPECT_TRUE(config_of(R"({"auto_map": null})").code_files.empty());
}

TEST(ReadConfig, OfAFolder) {
  const testing::TempDir dir;
  FileSystem& fs = posix_file_system();
  EXPECT_FALSE(read_config(fs, dir.path()).value());
  testing::write_file(dir / "config.json", R"({"model_type": "llama"})");
  EXPECT_EQ(read_config(fs, dir.path()).value()->model_type, "llama");
  testing::write_file(dir / "config.json", "[]");
  EXPECT_THAT(read_config(fs, dir.path()), Fails(ErrorCode::kCorrupt, "config.json"));
}

TEST(ParseConfig, LooksIntoTextConfig) {
  const ModelConfig config = config_of(R"({
    "model_type": "gemma3", "hidden_size": 8, "vocab_size": 40,
    "vision_config": {"model_type": "siglip", "hidden_size": 99, "num_attention_heads": 3,
                      "dtype": "float64"},
    "text_config": {"model_type": "gemma3_text", "tie_word_embeddings": false, "dtype": "float16",
                    "hidden_size": 24, "head_dim": 10, "vocab_size": 40},
    "quantization_config": {"bits": 4}})");
  EXPECT_THAT(config.parts, ElementsAre(FieldsAre("vision_config", "siglip", 3),
                                        FieldsAre("text_config", "gemma3_text", std::nullopt)));
  EXPECT_EQ(config.tie_word_embeddings, false);
  EXPECT_EQ(config.dtype, DType::kFloat16);
  EXPECT_TRUE(config.quantized);
  EXPECT_EQ(config.sizes.hidden_size, std::nullopt);  // both levels say different things
  EXPECT_EQ(config.sizes.head_dim, 10);
  EXPECT_EQ(config.sizes.vocab_size, 40);
  EXPECT_EQ(config.sizes.num_attention_heads, std::nullopt);

  EXPECT_EQ(config_of(R"({"tie_word_embeddings": true, "text_config":
                          {"tie_word_embeddings": false}})")
                .tie_word_embeddings,
            true);
}

TEST(ParseConfig, KnowsEverySpellingOfTheDtype) {
  const auto dtype = [](const char* text) { return config_of(text).dtype; };
  EXPECT_EQ(dtype(R"({"torch_dtype": "float16"})"), DType::kFloat16);
  EXPECT_EQ(dtype(R"({"torch_dtype": "torch.float32"})"), DType::kFloat32);
  EXPECT_EQ(dtype(R"({"dtype": "bfloat16", "torch_dtype": "float16"})"), DType::kBFloat16);
  EXPECT_EQ(dtype(R"({"dtype": null, "torch_dtype": "float16"})"), DType::kFloat16);
  EXPECT_EQ(dtype(R"({"dtype": "auto"})"), std::nullopt);
  EXPECT_EQ(dtype(R"({"dtype": {"": "bfloat16"}})"), std::nullopt);
  EXPECT_EQ(dtype("{}"), std::nullopt);
}

TEST(ParseConfig, TurnsNoOddModelAway) {
  const ModelConfig config = config_of(R"({"architectures": null, "model_type": 3,
    "tie_word_embeddings": "yes", "text_config": [], "vocab_size": "many", "hidden_size": 2.5,
    "time_step_limit": [0.0, Infinity]})");
  EXPECT_TRUE(config.architectures.empty());
  EXPECT_EQ(config.model_type, "");
  EXPECT_EQ(config.tie_word_embeddings, std::nullopt);
  EXPECT_EQ(config.sizes.vocab_size, std::nullopt);
  EXPECT_EQ(config.sizes.hidden_size, std::nullopt);
}

TEST(ParseConfig, Refuses) {
  EXPECT_THAT(parse_config("[]"), Fails(ErrorCode::kCorrupt, "no JSON object: found array"));
  EXPECT_THAT(parse_config("{"), Fails(ErrorCode::kCorrupt, "not valid JSON"));
  EXPECT_THAT(parse_config(R"({"dtype": "a", "dtype": "b"})"),
              Fails(ErrorCode::kCorrupt, "'dtype' comes twice"));
}

TEST(WithDtype, ChangesTheTopLevelOnly) {
  const auto changed = [](const std::string& text, DType dtype) {
    return with_dtype(config_of(text), dtype).value();
  };
  EXPECT_EQ(changed("{ \"a\":1,\r\n\t\"torch_dtype\" :\"float32\" , \"text_config\": "
                    "{\"dtype\": \"float32\"}}\n\n",
                    DType::kBFloat16),
            "{ \"a\":1,\r\n\t\"torch_dtype\" :\"bfloat16\" , \"text_config\": "
            "{\"dtype\": \"float32\"}}\n\n");
  EXPECT_EQ(changed(R"({"dtype": null, "torch_dtype": "float16", "x": [NaN]})", DType::kFloat32),
            R"({"dtype": "float32", "torch_dtype": "float32", "x": [NaN]})");
  EXPECT_EQ(changed(R"({"text_config": {"dtype": "float16"}})", DType::kFloat32),
            R"({"text_config": {"dtype": "float16"}})");
}

TEST(WithDtype, TakesOffTheNameThatFullyShardPutsBeforeAClass) {
  const ModelConfig config =
      config_of(R"({"architectures": ["FSDPQwen2ForTokenClassification"], "dtype": "float32"})");
  EXPECT_THAT(config.architectures, ElementsAre("Qwen2ForTokenClassification"));
  EXPECT_TRUE(config.has_wrapper_names);
  EXPECT_EQ(with_dtype(config, DType::kFloat16).value(),
            R"({"architectures": ["Qwen2ForTokenClassification"], "dtype": "float16"})");
  EXPECT_FALSE(config_of(R"({"architectures": ["FSDPadding"]})").has_wrapper_names);
}

TEST(TiesWordEmbeddings, DefaultsAreTransformers) {
  int tied = 0;
  const json::Value document = golden("tie_defaults.json");
  for (const auto& [model_type, value] : members(document)) {
    const ModelConfig config = config_of(R"({"model_type": ")" + model_type + "\"}");
    if (!ties_word_embeddings(config)) continue;
    ++tied;
    ASSERT_NE(value.get_if<bool>(), nullptr) << model_type;
    EXPECT_TRUE(*value.get_if<bool>()) << model_type;
  }
  EXPECT_EQ(tied, 16);
  EXPECT_FALSE(ties_word_embeddings(config_of(R"({"model_type": "llama"})")));
  EXPECT_FALSE(ties_word_embeddings(config_of("{}")));
  EXPECT_FALSE(
      ties_word_embeddings(config_of(R"({"model_type": "gemma2", "tie_word_embeddings": false})")));
}

TEST(TiesOnLoading, AFlagOfTextConfigCountsWhereTransformersTakesIt) {
  int tied = 0, others = 0;
  const json::Value document = golden("ties_of_text.json");
  for (const auto& [model_type, value] : members(document)) {
    const ModelConfig config = config_of(R"({"model_type": ")" + model_type +
                                         R"(", "text_config": {"tie_word_embeddings": true}})");
    EXPECT_TRUE(ties_word_embeddings(config)) << model_type;
    if (!ties_on_loading(config))
      ++others;
    else if (++tied; !*value.get_if<bool>())
      ADD_FAILURE() << model_type;
  }
  EXPECT_EQ(tied, 14);
  EXPECT_GT(others, 50);
  EXPECT_TRUE(ties_on_loading(config_of(R"({"model_type": "qwen3_vl", "tie_word_embeddings": true,
                                            "text_config": {"tie_word_embeddings": false}})")));
  EXPECT_TRUE(ties_on_loading(config_of(R"({"model_type": "gpt2"})")));
  EXPECT_FALSE(ties_on_loading(config_of(R"({"tie_word_embeddings": false})")));
}

}  // namespace
}  // namespace shardkit::hf
