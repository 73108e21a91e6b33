// The table of operations that state_dict_ops can run; one .cc file for each group of them.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/state/value.h"

namespace shardkit::interop {

/// One rank's part of an operation.
struct Call {
  ProcessGroup& group;
  Value input;  ///< what the rank's file holds, its tensors in memory
  const std::map<std::string, std::string>& arguments;  ///< "name=value" of the command line

  /// An argument, or the text for one that was not given.
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  bool flag(const std::string& name, bool otherwise) const;  ///< "1" or "0"
  std::vector<int> numbers(const std::string& name) const;   ///< "0,2"
  /// A value of the input, which is a dict. @error kInvalidArgument
  Result<Value> item(std::string_view name) const;
};

struct Operation {
  std::string_view name;
  Result<Value> (*run)(const Call& call);  ///< returns what the rank's file is to hold
};

// By the file that has them.
std::span<const Operation> gather_operations();
std::span<const Operation> local_operations();
std::span<const Operation> spread_operations();

}  // namespace shardkit::interop
