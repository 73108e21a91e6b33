#include "shardkit/hub/http_connection.h"

namespace shardkit::hub {

std::string_view HttpResponse::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

}  // namespace shardkit::hub
