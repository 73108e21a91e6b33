#include "cli/compare_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "cli/json_text.h"
#include "cli/progress_line.h"
#include "cli/reading_options.h"
#include "shardkit/json/value.h"
#include "shardkit/json/write.h"
#include "shardkit/merge/comparable.h"

namespace shardkit::cli {
namespace {

struct Arguments {
  std::vector<std::string> first;  // several: folders of one checkpoint
  std::string second;
  std::string hf_model_config_path;
  std::string dtype;
  double atol = 0;
  double rtol = 0;
  ReadingArguments reading;
  VerlArguments verl;
  bool quiet = false;
  bool json = false;
};

/// What the two sides are called in a report.
struct Sides {
  std::string_view first;
  std::string_view second;
};

struct Outcome {
  Comparable first;
  Comparable second;
  Comparison comparison;
};

Result<ComparisonOptions> to_options(const Arguments& arguments) {
  SHARDKIT_TRY(check_backend(arguments.verl));
  if (!std::isfinite(arguments.atol) || !std::isfinite(arguments.rtol))
    return Error(ErrorCode::kInvalidArgument, "--atol and --rtol must be finite numbers");
  ComparisonOptions options;
  options.tolerance = Tolerance{arguments.atol, arguments.rtol};
  options.replicas = replica_policy(arguments.reading);
  SHARDKIT_ASSIGN(options.transfer, transfer_options(arguments.reading));
  return options;
}

Result<Outcome> compare_both(const Arguments& arguments, ProgressLine& progress) {
  SHARDKIT_ASSIGN(ComparisonOptions options, to_options(arguments));
  SHARDKIT_ASSIGN(const hf::DTypeChoice dtype, hf::parse_dtype_choice(arguments.dtype));
  if (!arguments.quiet)
    options.transfer.on_progress = [&progress](const Progress& now) { progress.update(now); };
  const PlainTensors plain = plain_tensors(arguments.reading);
  FileSystem& fs = posix_file_system();
  SHARDKIT_ASSIGN(Comparable first,
                  open_comparable(fs, arguments.first, arguments.hf_model_config_path, plain));
  SHARDKIT_ASSIGN(Comparable second, open_comparable(fs, {&arguments.second, 1}, {}, plain));
  SHARDKIT_ASSIGN(Comparison comparison, compare(fs, first, second, dtype, options));
  return Outcome{std::move(first), std::move(second), std::move(comparison)};
}

/// JSON has no number for these.
json::Value number_or_text(double value) {
  return std::isfinite(value) ? json::Value(value) : json::Value(fmt::format("{}", value));
}

std::string_view kind_text(DifferenceKind kind) {
  switch (kind) {
    case DifferenceKind::kOnlyInFirst: return "only_in_first";
    case DifferenceKind::kOnlyInSecond: return "only_in_second";
    case DifferenceKind::kShape: return "shape";
    case DifferenceKind::kDType: return "dtype";
    case DifferenceKind::kValues: return "values";
  }
  return "";
}

json::Value to_json(const TensorDifference& difference) {
  json::Object object;
  object.add("tensor", difference.name);
  object.add("kind", kind_text(difference.kind));
  object.add("elements", difference.elements);
  if (difference.kind == DifferenceKind::kShape || difference.kind == DifferenceKind::kDType) {
    object.add("first", difference.first);
    object.add("second", difference.second);
  }
  if (difference.kind == DifferenceKind::kValues) {
    object.add("differing", difference.values.count);
    object.add("largest_error", number_or_text(difference.values.largest_error));
    json::Array index;
    for (const std::int64_t at : difference.first_index) index.items.emplace_back(at);
    object.add("first_index", std::move(index));
    object.add("first", number_or_text(difference.values.first_values[0]));
    object.add("second", number_or_text(difference.values.first_values[1]));
  }
  return object;
}

json::Value to_json(const Comparable& side) {
  json::Object object;
  object.add("path", side.path);
  object.add("kind", side.kind);
  object.add("notes", to_array(side.notes));
  return object;
}

json::Value to_json(const Outcome& outcome, const Arguments& arguments) {
  json::Object object;
  object.add("status", outcome.comparison.differences.empty() ? "ok" : "differences");
  object.add("first", to_json(outcome.first));
  object.add("second", to_json(outcome.second));
  object.add("dtype", arguments.dtype);
  object.add("atol", arguments.atol);
  object.add("rtol", arguments.rtol);
  object.add("tensors", outcome.comparison.tensors);
  object.add("equal", outcome.comparison.equal);
  object.add("notes", to_array(outcome.comparison.notes));
  json::Array differences;
  for (const TensorDifference& difference : outcome.comparison.differences)
    differences.items.push_back(to_json(difference));
  object.add("differences", std::move(differences));
  return object;
}

std::string line_of(const TensorDifference& difference, const Sides& sides) {
  const std::string& name = difference.name;
  switch (difference.kind) {
    case DifferenceKind::kOnlyInFirst: return fmt::format("'{}' is only in {}", name, sides.first);
    case DifferenceKind::kOnlyInSecond:
      return fmt::format("'{}' is only in {}", name, sides.second);
    case DifferenceKind::kShape:
    case DifferenceKind::kDType:
      return fmt::format("'{}' is {} in {}, {} in {}", name, difference.first, sides.first,
                         difference.second, sides.second);
    case DifferenceKind::kValues: break;
  }
  const ValueDifferences& values = difference.values;
  return fmt::format(
      "'{}': {} of {} elements, largest error {:.6g}, first at {}: {:.9g} against "
      "{:.9g}",
      name, values.count, difference.elements, values.largest_error,
      to_string(difference.first_index), values.first_values[0], values.first_values[1]);
}

void print(const Outcome& outcome, const Arguments& arguments, const Sides& sides,
           std::ostream& out) {
  const Comparison& comparison = outcome.comparison;
  for (const Comparable* side : {&outcome.first, &outcome.second})
    for (const std::string& note : side->notes) out << "note: " << note << "\n";
  for (const std::string& note : comparison.notes) out << "note: " << note << "\n";
  for (const TensorDifference& difference : comparison.differences)
    out << "DIFFERENT  " << line_of(difference, sides) << "\n";
  out << fmt::format("{} ({}) against {} ({}), {}\n", outcome.first.path, outcome.first.kind,
                     outcome.second.path, outcome.second.kind,
                     arguments.dtype == "keep" ? "as stored" : "as " + arguments.dtype);
  out << fmt::format(
      "{} of {} tensors equal{}\n", comparison.equal, comparison.tensors,
      arguments.atol == 0 && arguments.rtol == 0
          ? ""
          : fmt::format(", within {} + {} * |value|", arguments.atol, arguments.rtol));
}

int run_comparison(const Arguments& arguments, const Sides& sides, Streams& streams) {
  ProgressLine progress(streams, "compare");
  const auto outcome = compare_both(arguments, progress);
  progress.finish();
  if (!outcome.ok()) return report_error(outcome.error(), arguments.json, streams);
  if (arguments.json) {
    streams.out << json::write(to_json(*outcome, arguments), json::WriteStyle::kPretty) << "\n";
  } else if (!arguments.quiet) {
    print(*outcome, arguments, sides, streams.out);
  }
  return outcome->comparison.differences.empty() ? kDone : kDifferences;
}

void add_shared_options(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--dtype", arguments.dtype,
                  "Both are cast to it first: bfloat16, float16, float32, keep (as stored) or "
                  "auto (as config.json says)")
      ->capture_default_str();
  command
      .add_option("--atol", arguments.atol, "Equal within atol + rtol * |first value|; NaN never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--rtol", arguments.rtol, "See --atol")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_reading_options(command, arguments.reading);
  command.add_flag("--quiet", arguments.quiet, "No progress and no report");
  command.add_flag("--json", arguments.json, "Print the result as one JSON object");
}

}  // namespace

void add_test_command(CLI::App& app, Streams& streams, int& result) {
  const auto arguments = std::make_shared<Arguments>();
  arguments->dtype = "bfloat16";
  arguments->atol = arguments->rtol = 1e-6;
  CLI::App* command = app.add_subcommand(
      "test", "Compare what a merge of a checkpoint would write with a reference model");
  add_backend_option(*command, arguments->verl);
  command
      ->add_option("--local-dir", arguments->first,
                   "Checkpoint: a run, a step, a role (actor) or the folder of the shards; "
                   "several times where hosts kept their own files")
      ->required();
  command
      ->add_option("--test-hf-dir", arguments->second,
                   "Reference: a model folder (safetensors or pytorch_model.bin) or a file")
      ->required();
  command->add_option("--hf-model-config-path", arguments->hf_model_config_path,
                      "Folder with config.json; default: huggingface/ beside the shards");
  add_shared_options(*command, *arguments);
  add_verl_flags(*command, arguments->verl);
  command->callback([arguments, &streams, &result] {
    result = run_comparison(*arguments, {"the checkpoint", "the reference"}, streams);
  });
}

void add_diff_command(CLI::App& app, Streams& streams, int& result) {
  const auto arguments = std::make_shared<Arguments>();
  arguments->dtype = "keep";
  CLI::App* command =
      app.add_subcommand("diff", "Compare the tensors of two checkpoints, model folders or files");
  const auto set_first = [arguments](const std::string& path) { arguments->first = {path}; };
  command->add_option_function<std::string>("first", set_first, "Checkpoint, model folder or file")
      ->required();
  command->add_option("second", arguments->second, "Checkpoint, model folder or file")->required();
  add_shared_options(*command, *arguments);
  command->callback([arguments, &streams, &result] {
    result = run_comparison(*arguments, {"the first", "the second"}, streams);
  });
}

}  // namespace shardkit::cli
