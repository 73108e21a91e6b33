#include "cli/inspect_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "cli/json_text.h"
#include "shardkit/base/size_text.h"
#include "shardkit/inspect/inspection.h"
#include "shardkit/json/value.h"
#include "shardkit/json/write.h"

namespace shardkit::cli {
namespace {

struct Arguments {
  std::vector<std::string> paths;
  bool json = false;
};

json::Object to_json(const std::map<std::string, CountAndBytes>& counts) {
  json::Object object;
  for (const auto& [name, sum] : counts) {
    json::Object entry;
    entry.add("count", sum.count);
    entry.add("bytes", sum.bytes);
    object.add(name, std::move(entry));
  }
  return object;
}

json::Value to_json(const std::optional<std::int64_t>& number) {
  return number ? json::Value(*number) : json::Value();
}

json::Value to_json(const Inspection& inspection) {
  json::Array tensors;
  for (const TensorRow& row : inspection.tensors) {
    json::Object tensor;
    tensor.add("name", row.name);
    tensor.add("kind", row.kind);
    tensor.add("dtype", row.dtype);
    json::Array shape;
    for (const std::int64_t size : row.shape) shape.items.emplace_back(size);
    tensor.add("shape", std::move(shape));
    tensor.add("layout", row.layout);
    tensor.add("pieces", row.pieces);
    tensor.add("bytes", row.bytes);
    tensors.items.emplace_back(std::move(tensor));
  }
  json::Object object;
  object.add("status", inspection.problems.empty() ? "ok" : "problems");
  object.add("path", inspection.path);
  object.add("kind", to_string(inspection.kind));
  object.add("fsdp_version", to_json(inspection.fsdp_version));
  object.add("world_size", to_json(inspection.world_size));
  object.add("meshes", to_array(inspection.meshes));
  object.add("by_kind", to_json(inspection.by_kind));
  object.add("by_dtype", to_json(inspection.by_dtype));
  object.add("ties", to_array(inspection.ties));
  object.add("skipped", to_array(inspection.skipped));
  object.add("lora", inspection.lora ? json::Value(to_json(*inspection.lora)) : json::Value());
  object.add("notes", to_array(inspection.notes));
  object.add("problems", to_array(inspection.problems));
  if (inspection.forecast) {
    json::Object forecast;
    forecast.add("dtype", inspection.forecast->dtype);
    forecast.add("weight_bytes", inspection.forecast->weight_bytes);
    forecast.add("weight_files", inspection.forecast->weight_files);
    forecast.add("sidecar_files", inspection.forecast->sidecar_files);
    forecast.add("memory_bytes", inspection.forecast->memory_bytes);
    object.add("merge", std::move(forecast));
  } else {
    object.add("merge", json::Value());
  }
  object.add("tensors", std::move(tensors));
  return object;
}

void print_counts(std::string_view title, const std::map<std::string, CountAndBytes>& counts,
                  std::ostream& out) {
  for (const auto& [name, sum] : counts) {
    out << fmt::format("{:<10} {} {}, {}\n", title, sum.count, name, format_bytes(sum.bytes));
    title = "";
  }
}

void print_list(std::string_view title, const std::vector<std::string>& lines, std::ostream& out) {
  for (const std::string& line : lines) out << fmt::format("{:<10} {}\n", title, line);
}

void print_tensors(const std::vector<TensorRow>& rows, std::ostream& out) {
  if (rows.empty()) return;
  std::size_t name = 4, dtype = 5, shape = 5, layout = 6;
  for (const TensorRow& row : rows) {
    name = std::max(name, row.name.size());
    dtype = std::max(dtype, row.dtype.size());
    shape = std::max(shape, to_string(row.shape).size());
    layout = std::max(layout, row.layout.size());
  }
  const auto line = [&](std::string_view a, std::string_view b, std::string_view c,
                        std::string_view d, const std::string& pieces) {
    out << fmt::format("{:<{}}  {:<{}}  {:<{}}  {:<{}}  {}\n", a, name, b, dtype, c, shape, d,
                       layout, pieces);
  };
  out << "\n";
  line("name", "dtype", "shape", "layout", "pieces");
  for (const TensorRow& row : rows)
    line(row.name, row.dtype, to_string(row.shape), row.layout, std::to_string(row.pieces));
}

void print(const Inspection& inspection, std::ostream& out) {
  out << fmt::format("{}: {}\n", to_string(inspection.kind), inspection.path);
  if (inspection.fsdp_version) out << fmt::format("FSDP       {}\n", *inspection.fsdp_version);
  if (inspection.world_size) out << fmt::format("world size {}\n", *inspection.world_size);
  print_list("mesh", inspection.meshes, out);
  print_counts("tensors", inspection.by_kind, out);
  print_counts("dtypes", inspection.by_dtype, out);
  print_list("tied", inspection.ties, out);
  if (inspection.lora) print_list("LoRA", {to_string(*inspection.lora)}, out);
  print_list("no tensor", inspection.skipped, out);
  print_list("note", inspection.notes, out);
  if (inspection.forecast) {
    const MergeForecast& forecast = *inspection.forecast;
    out << fmt::format("merge      writes {} as {} in {} file(s) and copies {}; buffers: {}\n",
                       format_bytes(forecast.weight_bytes), forecast.dtype, forecast.weight_files,
                       forecast.sidecar_files, format_bytes(forecast.memory_bytes));
  }
  print_list("PROBLEM", inspection.problems, out);
  print_tensors(inspection.tensors, out);
}

int inspect(const Arguments& arguments, Streams& streams) {
  const auto inspection = shardkit::inspect(posix_file_system(), arguments.paths);
  if (!inspection.ok()) return report_error(inspection.error(), arguments.json, streams);
  if (arguments.json) {
    streams.out << json::write(to_json(*inspection), json::WriteStyle::kPretty) << "\n";
  } else {
    print(*inspection, streams.out);
  }
  return inspection->problems.empty() ? kDone : kInputRefused;
}

}  // namespace

void add_inspect_command(CLI::App& app, Streams& streams, int& result) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Show what a checkpoint, a .pt, a .safetensors or a model folder holds");
  command
      ->add_option("path", arguments->paths,
                   "File or folder; several folders: of one checkpoint, where hosts kept their own "
                   "files")
      ->required();
  command->add_flag("--json", arguments->json, "Print the result as one JSON object");
  command->callback([arguments, &streams, &result] { result = inspect(*arguments, streams); });
}

}  // namespace shardkit::cli
