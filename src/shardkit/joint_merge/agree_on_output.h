// Whether all ranks have decided on the same output, of the same files.
#pragma once

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/merge/decide_output.h"
#include "shardkit/merge/fsdp_merger.h"
#include "shardkit/merge/merge_source.h"

namespace shardkit {

/// Whether all ranks were given the same folders and the same version. Collective.
/// @error kInvalidArgument, naming the first rank that differs from rank 0
Status agree_on_command(ProcessGroup& group, const MergeOptions& options);

/// Whether what they opened and decided is the same: the checkpoint's folder, its files by size and
/// directory CRC, the choices, and the planned files with their headers. Collective.
/// @error kInvalidArgument other folders or choices; kIncomplete other files. The first rank that
///        differs from rank 0 is named.
Status agree_on_output(ProcessGroup& group, const MergeSource& source,
                       const OutputDecision& decision);

}  // namespace shardkit
