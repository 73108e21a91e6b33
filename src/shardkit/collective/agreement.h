// Agreement: before ranks move data they tell each other what they are about to do.
#pragma once

#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"

namespace shardkit {

// The rule of all functions of several ranks: a rank whose own checks failed still
// comes to the next agreement, with its error; then all ranks return it. What is checked after an
// exchange depends on the exchanged messages alone, so that all ranks find the same without asking
// again. So nobody waits for a rank that has given up.

/// Exchanges a message of each rank. Collective.
///
/// @param mine  this rank's message, or why it cannot take part
/// @return      all messages, by rank
/// @error       the error of the lowest rank that has one, the same on all ranks, with "rank R: "
///              before its text; or as ProcessGroup
/// Cost: two calls of the group, and the memory of all messages.
Result<std::vector<std::string>> exchange_messages(ProcessGroup& group, Result<std::string> mine);

/// Whether all ranks succeeded: the error of the lowest rank that did not. Collective.
/// @error as exchange_messages()
Status agree_on_status(ProcessGroup& group, Status mine);

}  // namespace shardkit
