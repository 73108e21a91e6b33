#include "shardkit/hub/repo_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "shardkit/json/parse.h"
#include "shardkit/json/value.h"
#include "shardkit/json/write.h"

namespace shardkit::hub {
namespace {

constexpr std::uint64_t kMostParts = 10'000;  // of Amazon S3, whose protocol parts are
constexpr std::string_view kPublicHub = "https://huggingface.co";
constexpr int kCommitSilenceSeconds = 600;

Error unexpected(std::string_view what, std::string_view found) {
  return Error(ErrorCode::kIo, fmt::format("the server's answer to {} makes no sense", what))
      .found(found);
}

bool is_success(const HttpResponse& response) {
  return response.status >= 200 && response.status < 300;
}

std::string text_of(const json::Value& value) {
  return json::write(value, json::WriteStyle::kCompact);
}

Result<json::Value> parse_answer(const HttpResponse& response, std::string_view what,
                                 const Token& token) {
  auto value = json::parse(response.body);
  if (!value.ok()) return unexpected(what, shown_text(value.error().what(), token));
  return value;
}

const std::string* string_member(const json::Value& value, std::string_view name) {
  const json::Value* member = value.find(name);
  return member ? member->get_if<std::string>() : nullptr;
}

bool bool_member(const json::Value& value, std::string_view name) {
  const json::Value* member = value.find(name);
  const bool* found = member ? member->get_if<bool>() : nullptr;
  return found && *found;
}

/// A commit's or a page's name that will be shown: no control characters, and not endless.
bool is_showable(const std::string& text) {
  return !text.empty() && text.size() < 1000 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

/// "chunk_size" may be a number or a text.
std::optional<std::uint64_t> part_size(const json::Value& value) {
  if (const auto number = value.as_uint64()) return number;
  const std::string* text = value.get_if<std::string>();
  std::uint64_t number = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return number;
}

Result<LfsActions> parse_parts(const json::Value& header, std::uint64_t part_bytes,
                               const LfsObject& object) {
  constexpr std::string_view kWhat = "the question where to send parts";
  if (part_bytes == 0) return unexpected(kWhat, "parts of no bytes");
  const std::uint64_t count = (object.bytes - 1) / part_bytes + 1;
  if (count > kMostParts) return unexpected(kWhat, fmt::format("{} parts", count));
  LfsActions actions;
  actions.part_bytes = part_bytes;
  actions.parts.resize(static_cast<std::size_t>(count));
  std::size_t found = 0;
  for (const auto& [name, value] : header.get_if<json::Object>()->members) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (name.empty() || error != std::errc() || end != name.data() + name.size()) continue;
    const std::string* address = value.get_if<std::string>();
    if (!address || number < 1 || number > count ||
        !actions.parts[static_cast<std::size_t>(number - 1)].empty())
      return unexpected(kWhat, fmt::format("part {} of {}", number, count));
    actions.parts[static_cast<std::size_t>(number - 1)] = *address;
    ++found;
  }
  if (found != count) return unexpected(kWhat, fmt::format("{} of {} parts", found, count));
  return actions;
}

Result<LfsActions> parse_actions(const json::Value& answer, const LfsObject& object) {
  constexpr std::string_view kWhat = "the question where to send a file";
  const json::Value* all = answer.find("actions");
  const json::Value* upload = all ? all->find("upload") : nullptr;
  LfsActions actions;
  if (!upload) {
    actions.is_there = true;
    return actions;
  }
  const std::string* address = string_member(*upload, "href");
  if (!address || address->empty()) return unexpected(kWhat, "no address");
  const json::Value* header = upload->find("header");
  if (header && !header->is_null() && !header->get_if<json::Object>())
    return unexpected(kWhat, "headers that are none");
  if (const json::Value* size = header ? header->find("chunk_size") : nullptr) {
    const auto bytes = part_size(*size);
    if (!bytes) return unexpected(kWhat, "a chunk_size that is no number");
    SHARDKIT_ASSIGN(actions, parse_parts(*header, *bytes, object));
    actions.completion = *address;
  } else {
    actions.parts = {*address};
  }
  if (const json::Value* verify = all->find("verify"); verify && !verify->is_null()) {
    const std::string* where = string_member(*verify, "href");
    if (!where || where->empty()) return unexpected(kWhat, "no address to verify at");
    actions.verification = *where;
  }
  return actions;
}

bool speaks_of_storage(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text.find("storage") != std::string::npos || text.find("quota") != std::string::npos;
}

bool is_storage_refusal(int status, const std::string& message) {
  return status == 402 || status == 413 || status == 507 ||
         (status == 403 && speaks_of_storage(message));
}

}  // namespace

Status check_repo_name(std::string_view name) {
  const auto is_inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  const auto is_part = [&](std::string_view part) {
    return !part.empty() && part.size() <= 96 && std::all_of(part.begin(), part.end(), is_inner) &&
           part.front() != '-' && part.front() != '.' && part.back() != '-' && part.back() != '.';
  };
  const std::size_t slash = name.find('/');
  if (slash != std::string_view::npos && is_part(name.substr(0, slash)) &&
      is_part(name.substr(slash + 1)) && name.find("--") == std::string_view::npos &&
      name.find("..") == std::string_view::npos && !name.ends_with(".git"))
    return {};
  return Error(ErrorCode::kInvalidArgument, "not the name of a repository on a Hub")
      .expected("ORG/NAME of letters, digits, '-', '_' and '.'")
      .found(name);
}

Error RepoApi::refusal(const HttpResponse& response, std::string_view what) const {
  const std::string says = server_message(response, token());
  std::string text;
  if (response.status == 0) {
    text = fmt::format("the network fails: {}", response.failure);
  } else if (response.status == 401) {
    text = fmt::format("the Hub does not accept the token from {}", token().source());
  } else if (is_storage_refusal(response.status, says)) {
    text = fmt::format("the Hub has no room to {}: the account's storage is used up", what);
  } else if (response.status == 403) {
    text = fmt::format("the token from {} may not {}", token().source(), what);
  } else if (response.status == 404 && response.header("x-error-code") == "RevisionNotFound") {
    text = fmt::format("{} has no branch '{}'", page(), branch_);
  } else if (response.status == 404) {
    text = fmt::format("there is no repository {}, or the token from {} may not see it", page(),
                       token().source());
  } else {
    text = fmt::format("the Hub refuses to {}", what);
  }
  Error error(ErrorCode::kIo, text);
  if (response.status == 0) return error;
  return std::move(error).found(
      fmt::format("status {}{}{}", response.status, says.empty() ? "" : ": ", says));
}

Error RepoApi::storage_refusal(const HttpResponse& response, std::string_view path) const {
  const std::string says = server_message(response, token());
  if (is_storage_refusal(response.status, says)) return refusal(response, "take a file");
  return Error(ErrorCode::kIo, fmt::format("the storage does not take '{}'", path))
      .found(fmt::format("status {}{}{}", response.status, says.empty() ? "" : ": ", says));
}

std::string RepoApi::page() const {
  return client_->session().access.endpoint.text() + "/" + repo_;
}

std::string RepoApi::api_path(std::string_view end) const {
  return fmt::format("/api/models/{}{}", repo_, end);
}

Result<Url> RepoApi::own_url(const std::string& path) const {
  Url url = client_->session().access.endpoint;
  url.target += path;
  return url;
}

/// As huggingface_hub's fix_hf_endpoint_in_url: behind a mirror the public name means the mirror.
Result<Url> RepoApi::storage_url(std::string_view address) const {
  const Access& access = client_->session().access;
  std::string text(address);
  if (text.starts_with(std::string(kPublicHub) + "/"))
    text = access.endpoint.text() + text.substr(kPublicHub.size());
  auto url = parse_url(text);
  if (!url.ok()) return unexpected("the question where to send a file", url.error().what());
  if (access.endpoint.scheme == "https" && url->scheme != "https")
    return Error(ErrorCode::kIo, "the Hub wants a file to be sent without encryption")
        .found(url->shown());
  return url;
}

Result<HttpResponse> RepoApi::post(const std::string& path, std::string body,
                                   std::string_view what) {
  TextBody text(std::move(body));
  HubRequest request;
  request.http.method = "POST";
  SHARDKIT_ASSIGN(request.http.url, own_url(path));
  request.http.headers = {"Content-Type: application/json"};
  request.http.body = &text;
  SHARDKIT_ASSIGN(HttpResponse response, client_->send(std::move(request)));
  if (!is_success(response)) return refusal(response, what);
  return response;
}

Status RepoApi::create(bool is_private) {
  constexpr std::string_view kWhat = "make the repository";
  const std::size_t slash = repo_.find('/');
  json::Object object;
  object.add("name", repo_.substr(slash + 1));
  object.add("organization", repo_.substr(0, slash));
  object.add("type", "model");
  if (is_private) object.add("visibility", "private");
  TextBody text(text_of(json::Value(std::move(object))));
  HubRequest request;
  request.http.method = "POST";
  SHARDKIT_ASSIGN(request.http.url, own_url("/api/repos/create"));
  request.http.headers = {"Content-Type: application/json"};
  request.http.body = &text;
  SHARDKIT_ASSIGN(HttpResponse made, client_->send(request));
  // A Hub makes one repository of an account at a time.
  for (int i = 0; i < client_->session().retry.tries && made.status == 409 &&
                  made.body.find("conflicting operation is in progress") != std::string::npos;
       ++i) {
    SHARDKIT_TRY(client_->session().wait(1, "another repository is being made"));
    SHARDKIT_ASSIGN(made, client_->send(request));
  }
  // 409: it exists. Who may not make one may still write to one that exists.
  const bool may_exist =
      made.status == 409 || made.status == 401 || made.status == 402 || made.status == 403;
  if (!is_success(made) && !may_exist) return refusal(made, kWhat);
  if (is_success(made) && !is_private) return {};

  HubRequest look;
  SHARDKIT_ASSIGN(look.http.url, own_url(api_path("?expand=private")));
  SHARDKIT_ASSIGN(const HttpResponse found, client_->send(std::move(look)));
  if (!is_success(found))
    return made.status == 409 || is_success(made) ? refusal(found, "see the repository")
                                                  : refusal(made, kWhat);
  if (!is_private) return {};
  SHARDKIT_ASSIGN(const json::Value info,
                  parse_answer(found, "the question for the repository", token()));
  if (bool_member(info, "private")) return {};
  return Error(
      ErrorCode::kIo,
      fmt::format("{} is public, and --private asks for a private one: nothing was sent", page()));
}

Status RepoApi::create_branch() {
  HubRequest look;
  const std::string name = encode_component(branch_);
  SHARDKIT_ASSIGN(look.http.url, own_url(api_path("/revision/" + name + "?expand=sha")));
  SHARDKIT_ASSIGN(const HttpResponse found, client_->send(std::move(look)));
  if (is_success(found)) return {};
  if (found.status != 404) return refusal(found, "see the branch");
  TextBody text("{}");
  HubRequest request;
  request.http.method = "POST";
  SHARDKIT_ASSIGN(request.http.url, own_url(api_path("/branch/" + name)));
  request.http.headers = {"Content-Type: application/json"};
  request.http.body = &text;
  SHARDKIT_ASSIGN(const HttpResponse made, client_->send(std::move(request)));
  if (is_success(made) || made.status == 409) return {};
  return refusal(made, "make the branch");
}

Result<std::string> RepoApi::branch_oid() {
  constexpr std::string_view kWhat = "the question for the branch";
  HubRequest look;
  SHARDKIT_ASSIGN(look.http.url,
                  own_url(api_path("/revision/" + encode_component(branch_) + "?expand=sha")));
  SHARDKIT_ASSIGN(const HttpResponse found, client_->send(std::move(look)));
  if (!is_success(found)) return refusal(found, "see the branch");
  SHARDKIT_ASSIGN(const json::Value info, parse_answer(found, kWhat, token()));
  const std::string* oid = string_member(info, "sha");
  if (!oid || !is_showable(*oid)) return unexpected(kWhat, "no commit");
  return token().redact(*oid);
}

Result<std::vector<PreuploadAnswer>> RepoApi::preupload(
    std::span<const PreuploadFile> files, const std::optional<std::string>& gitignore) {
  constexpr std::string_view kWhat = "the list of files";
  json::Array list;
  std::map<std::string_view, std::size_t> places;
  for (const PreuploadFile& file : files) {
    places.emplace(file.path, places.size());
    json::Object object;
    object.add("path", file.path);
    object.add("sample", file.sample);
    object.add("size", file.bytes);
    list.items.emplace_back(std::move(object));
  }
  json::Object object;
  object.add("files", std::move(list));
  if (gitignore) object.add("gitIgnore", *gitignore);
  SHARDKIT_ASSIGN(const HttpResponse response,
                  post(api_path("/preupload/" + encode_component(branch_)),
                       text_of(json::Value(std::move(object))), "write to the repository"));
  SHARDKIT_ASSIGN(const json::Value answer, parse_answer(response, kWhat, token()));
  const json::Value* answered = answer.find("files");
  const auto* items = answered ? answered->get_if<json::Array>() : nullptr;
  if (!items) return unexpected(kWhat, "no files");
  std::vector<PreuploadAnswer> answers(files.size());
  std::vector<bool> is_answered(files.size());
  for (const json::Value& item : items->items) {
    const std::string* path = string_member(item, "path");
    const std::string* mode = string_member(item, "uploadMode");
    const auto place = path ? places.find(*path) : places.end();
    if (place == places.end() || is_answered[place->second])
      return unexpected(kWhat, "a file that is not in the list");
    if (!mode || (*mode != "lfs" && *mode != "regular"))
      return unexpected(kWhat, "neither lfs nor regular");
    PreuploadAnswer& one = answers[place->second];
    is_answered[place->second] = true;
    // Storages take no empty objects (huggingface_hub, _commit_api.py).
    one.is_lfs = *mode == "lfs" && files[place->second].bytes > 0;
    one.is_ignored = bool_member(item, "shouldIgnore");
    if (const std::string* oid = string_member(item, "oid")) one.oid = *oid;
  }
  if (std::find(is_answered.begin(), is_answered.end(), false) != is_answered.end())
    return unexpected(kWhat, "not all files");
  return answers;
}

Result<std::vector<LfsActions>> RepoApi::lfs_batch(std::span<const LfsObject> objects) {
  constexpr std::string_view kWhat = "the question where to send a file";
  json::Array list;
  std::map<std::string_view, std::size_t> places;
  for (const LfsObject& object : objects) {
    if (!places.emplace(object.oid, places.size()).second)
      return Error(ErrorCode::kInternal, "an object is asked for twice");
    json::Object one;
    one.add("oid", object.oid);
    one.add("size", object.bytes);
    list.items.emplace_back(std::move(one));
  }
  json::Array transfers;
  for (const char* name : {"basic", "multipart"}) transfers.items.emplace_back(name);
  json::Object ref;
  ref.add("name", branch_);
  json::Object question;
  question.add("operation", "upload");
  question.add("transfers", std::move(transfers));
  question.add("objects", std::move(list));
  question.add("hash_algo", "sha256");
  question.add("ref", std::move(ref));

  TextBody text(text_of(json::Value(std::move(question))));
  HubRequest request;
  request.http.method = "POST";
  SHARDKIT_ASSIGN(request.http.url, own_url(fmt::format("/{}.git/info/lfs/objects/batch", repo_)));
  request.http.headers = {"Accept: application/vnd.git-lfs+json",
                          "Content-Type: application/vnd.git-lfs+json"};
  request.http.body = &text;
  SHARDKIT_ASSIGN(const HttpResponse response, client_->send(std::move(request)));
  if (!is_success(response)) return refusal(response, "take files");
  SHARDKIT_ASSIGN(const json::Value answer, parse_answer(response, kWhat, token()));
  if (const std::string* transfer = string_member(answer, "transfer");
      transfer && *transfer != "basic" && *transfer != "multipart")
    return Error(ErrorCode::kIo, "the Hub wants files in a way that shardkit does not know")
        .expected("basic or multipart")
        .found(shown_text(*transfer, token()));
  const json::Value* answered = answer.find("objects");
  const auto* items = answered ? answered->get_if<json::Array>() : nullptr;
  if (!items) return unexpected(kWhat, "no objects");
  std::vector<LfsActions> actions(objects.size());
  std::vector<bool> is_answered(objects.size());
  for (const json::Value& item : items->items) {
    const std::string* oid = string_member(item, "oid");
    const auto place = oid ? places.find(*oid) : places.end();
    if (place == places.end() || is_answered[place->second])
      return unexpected(kWhat, "an object that was not asked for");
    const LfsObject& object = objects[place->second];
    is_answered[place->second] = true;
    if (const json::Value* error = item.find("error")) {
      HttpResponse refused;
      const json::Value* code = error->find("code");
      const std::int64_t status = code ? code->as_int64().value_or(0) : 0;
      refused.status = status >= 400 && status < 600 ? static_cast<int>(status) : 422;
      refused.body = text_of(*error);
      return refusal(refused, "take a file");
    }
    SHARDKIT_ASSIGN(actions[place->second], parse_actions(item, object));
  }
  if (std::find(is_answered.begin(), is_answered.end(), false) != is_answered.end())
    return unexpected(kWhat, "not all objects");
  return actions;
}

Result<HttpResponse> RepoApi::complete(const std::string& address, const std::string& oid,
                                       std::span<const std::string> etags) {
  json::Array parts;
  for (const std::string& etag : etags) {
    json::Object part;
    part.add("partNumber", parts.items.size() + 1);
    part.add("etag", etag);
    parts.items.emplace_back(std::move(part));
  }
  json::Object object;
  object.add("oid", oid);
  object.add("parts", std::move(parts));
  TextBody text(text_of(json::Value(std::move(object))));
  HubRequest request;
  request.http.method = "POST";
  SHARDKIT_ASSIGN(request.http.url, storage_url(address));
  request.http.headers = {"Accept: application/vnd.git-lfs+json",
                          "Content-Type: application/vnd.git-lfs+json"};
  request.http.body = &text;
  request.with_token = false;  // the address itself is the permission
  return client_->send(std::move(request));
}

Status RepoApi::verify(const std::string& address, const LfsObject& object, std::string_view path) {
  json::Object question;
  question.add("oid", object.oid);
  question.add("size", object.bytes);
  TextBody text(text_of(json::Value(std::move(question))));
  HubRequest request;
  request.http.method = "POST";
  SHARDKIT_ASSIGN(request.http.url, storage_url(address));
  request.http.headers = {"Content-Type: application/json"};
  request.http.body = &text;
  SHARDKIT_ASSIGN(const HttpResponse response, client_->send(std::move(request)));
  if (is_success(response)) return {};
  return storage_refusal(response, path);
}

Result<std::optional<Commit>> RepoApi::commit(RequestBody& body) {
  constexpr std::string_view kWhat = "the commit";
  HubRequest request;
  request.http.method = "POST";
  SHARDKIT_ASSIGN(request.http.url, own_url(api_path("/commit/" + encode_component(branch_))));
  request.http.headers = {"Content-Type: application/x-ndjson"};
  request.http.body = &body;
  request.http.silence_seconds = kCommitSilenceSeconds;
  request.is_repeatable = false;
  SHARDKIT_ASSIGN(const HttpResponse response, client_->send(std::move(request)));
  if (response.status == 0 || response.status >= 500) {
    if (response.is_final || response.status == 501 || response.status == 507)
      return refusal(response, "commit");
    return std::optional<Commit>();
  }
  if (!is_success(response)) return refusal(response, "commit");
  SHARDKIT_ASSIGN(const json::Value answer, parse_answer(response, kWhat, token()));
  const std::string* oid = string_member(answer, "commitOid");
  const std::string* url = string_member(answer, "commitUrl");
  if (!oid || !url || !is_showable(*oid) || !is_showable(*url))
    return unexpected(kWhat, "no commitOid or commitUrl");
  return Commit{token().redact(*oid), token().redact(*url)};
}

}  // namespace shardkit::hub
