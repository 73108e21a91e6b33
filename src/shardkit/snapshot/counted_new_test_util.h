// How often the test program has called operator new.
#pragma once

namespace shardkit::testing {

long news_so_far();

}  // namespace shardkit::testing
