#include "shardkit/hub/hub_client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>

#include "shardkit/hub/repo_api.h"
#include "shardkit/hub/scripted_server_test_util.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::hub {
namespace {

using ::shardkit::testing::Fails;
using ::shardkit::testing::IsOk;

constexpr RetryPolicy kQuick{.tries = 4,
                             .tries_unreached = 2,
                             .first_wait = 0.001,
                             .longest_wait = 0.01,
                             .longest_asked_wait = 30};

class HubClientTest : public ::testing::Test {
 protected:
  void start(ScriptedServer::Script script) {
    server_ = std::make_unique<ScriptedServer>(std::move(script));
    connect(server_->url());
  }
  void connect(const std::string& endpoint) {
    session_ = std::make_unique<HubSession>(
        Access{parse_url(endpoint).value(), Token::make("hf_secret", "HF_TOKEN").value()},
        [](const std::string&) { return std::nullopt; }, kQuick, &cancel_,
        [this](const std::string& text) { waits_.push_back(text); });
    client_ = std::make_unique<HubClient>(HubClient::make(*session_).value());
  }
  HubRequest get(const std::string& path) {
    HubRequest request;
    request.http.url = parse_url(session_->access.endpoint.text() + path).value();
    return request;
  }

  std::unique_ptr<ScriptedServer> server_;
  std::unique_ptr<HubSession> session_;
  std::unique_ptr<HubClient> client_;
  std::atomic<bool> cancel_ = false;
  std::vector<std::string> waits_;
};

TEST_F(HubClientTest, SendsBodyTokenAndHeadersAndReadsTheAnswer) {
  start([](const auto&) {
    return ScriptedServer::answer("200 OK", "yes", "X-One: 1\r\nx-TWO:  2 \r\n");
  });
  TextBody body("hello");
  HubRequest request = get("/x?y");
  request.http.method = "PUT";
  request.http.body = &body;
  request.http.headers = {"X-Mine: a"};
  const HttpResponse response = client_->send(std::move(request)).value();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "yes");
  EXPECT_EQ(response.header("x-one"), "1");
  EXPECT_EQ(response.header("x-two"), "2");
  const auto seen = server_->requests().at(0);
  EXPECT_EQ(seen.line, "PUT /x?y HTTP/1.1");
  EXPECT_EQ(seen.body, "hello");
  EXPECT_NE(seen.headers.find("\r\nX-Mine: a\r\n"), std::string::npos);
  EXPECT_NE(seen.headers.find("\r\nAuthorization: Bearer hf_secret\r\n"), std::string::npos);
  EXPECT_NE(seen.headers.find("\r\nUser-Agent: shardkit/"), std::string::npos);
}

TEST_F(HubClientTest, TheTokenGoesNowhereElse) {
  ScriptedServer other([](const auto&) { return ScriptedServer::answer("200 OK", "other"); });
  start([&](const auto&) {
    return ScriptedServer::answer("307 Temporary Redirect", "",
                                  "Location: " + other.url() + "/\r\n");
  });
  EXPECT_EQ(client_->send(get("/x")).value().body, "other");
  EXPECT_NE(server_->requests().at(0).headers.find("hf_secret"), std::string::npos);
  EXPECT_EQ(other.requests().at(0).headers.find("hf_secret"), std::string::npos);
  HubRequest request = get("/x");
  request.http.url = parse_url(other.url() + "/direct").value();
  EXPECT_THAT(client_->send(std::move(request)), IsOk());
  EXPECT_EQ(other.requests().at(1).headers.find("hf_secret"), std::string::npos);
  request = get("/x");
  request.with_token = false;
  EXPECT_THAT(client_->send(std::move(request)), IsOk());
  EXPECT_EQ(server_->requests().at(1).headers.find("hf_secret"), std::string::npos);
}

TEST_F(HubClientTest, TriesAgainWhatMayHelpAndNothingElse) {
  std::atomic<int> count = 0;
  std::vector<std::string> answers = {ScriptedServer::answer("503 Busy", ""), "",
                                      ScriptedServer::answer("429 Slow", ""),
                                      ScriptedServer::answer("200 OK", "done")};
  start([&](const auto&) { return answers.at(static_cast<std::size_t>(count++)); });
  EXPECT_EQ(client_->send(get("/")).value().body, "done");
  for (const char* status :
       {"400 Bad", "401 Who", "403 No", "404 Where", "409 Is", "501 Never", "507 Full"}) {
    count = 0;
    answers.assign(1, ScriptedServer::answer(status, ""));
    EXPECT_EQ(client_->send(get("/")).value().status, std::stoi(status));
    EXPECT_EQ(count, 1) << status;
  }
}

TEST_F(HubClientTest, GivesUpAndSaysHowOftenItTried) {
  start([](const auto&) {
    return ScriptedServer::answer("500 Oh", R"({"error": "broken hf_secret"})");
  });
  const auto failed = client_->send(get("/x?secret=1"));
  EXPECT_THAT(failed, Fails(ErrorCode::kIo, "status 500"));
  EXPECT_THAT(failed, Fails(ErrorCode::kIo,
                            "4 tries to GET " + server_->url() + "/x; it says: broken ***"));
  EXPECT_EQ(server_->requests().size(), 4u);
}

TEST_F(HubClientTest, AServerThatWasNeverReachedIsTriedLessOften) {
  std::string gone;
  {
    ScriptedServer server([](const auto&) { return ""; });
    gone = server.url();
  }
  connect(gone);
  EXPECT_THAT(client_->send(get("/")), Fails(ErrorCode::kIo, "the network fails: "));
  EXPECT_THAT(client_->send(get("/")), Fails(ErrorCode::kIo, "2 tries"));
}

TEST_F(HubClientTest, WhatMayNotBeDoneTwiceIsLeftToTheCaller) {
  std::atomic<int> count = 0;
  start([&](const auto&) {
    return count++ == 0 ? ScriptedServer::answer("429 Slow", "")
           : count == 2 ? std::string()
                        : ScriptedServer::answer("502 Oh", "");
  });
  HubRequest request = get("/");
  request.is_repeatable = false;
  const HttpResponse none = client_->send(request).value();  // 429 says that nothing was done
  EXPECT_EQ(none.status, 0);
  EXPECT_NE(none.failure, "");
  EXPECT_EQ(client_->send(request).value().status, 502);
  EXPECT_EQ(count, 3);
}

TEST_F(HubClientTest, WaitsAsLongAsItIsAskedToAndSaysSo) {
  std::atomic<int> count = 0;
  start([&](const auto&) {
    return count++ == 0 ? ScriptedServer::answer("429 Slow", "", "Retry-After: 1\r\n")
                        : ScriptedServer::answer("200 OK", "");
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(client_->send(get("/")), IsOk());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  ASSERT_EQ(waits_.size(), 1u);
  EXPECT_EQ(waits_[0], "127.0.0.1 answers status 429; trying again in 1.0 s");
}

TEST_F(HubClientTest, StopsAtOnce) {
  start([](const auto&) { return ScriptedServer::answer("429 Slow", "", "Retry-After: 20\r\n"); });
  std::thread stopper([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cancel_ = true;
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(client_->send(get("/")), Fails(ErrorCode::kCancelled, "stopped"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  stopper.join();
}

TEST_F(HubClientTest, AnAnswerThatIsTooLongIsRefused) {
  start([](const auto&) { return ScriptedServer::answer("200 OK", std::string(1001, 'x')); });
  HubRequest request = get("/");
  request.http.most_answer_bytes = 1000;
  EXPECT_THAT(client_->send(request), Fails(ErrorCode::kIo, "longer than it may be"));
  request.http.most_answer_bytes = 1001;
  EXPECT_THAT(client_->send(request), IsOk());
}

TEST_F(HubClientTest, AnAnswerWithTooManyHeadersIsRefused) {
  const auto headers = [](const std::string& value) {
    return "X-A: " + value + "\r\nX-B: " + value + "\r\nX-C: " + value + "\r\n";
  };
  std::atomic<std::size_t> length = 90'000;  // three of which are more than 256 KiB
  start([&](const auto&) {
    return ScriptedServer::answer("200 OK", "", headers(std::string(length, 'x')));
  });
  EXPECT_THAT(client_->send(get("/")),
              Fails(ErrorCode::kIo,
                    "the server's answer has too many headers: expected at most 262144 bytes"));
  length = 80'000;
  EXPECT_THAT(client_->send(get("/")), IsOk());
}

TEST_F(HubClientTest, AnObjectIsAskedForOnce) {
  start([](const auto&) { return ScriptedServer::answer("200 OK", ""); });
  RepoApi api(*client_, "org/model", "main");
  const std::vector<LfsObject> twice{{"c0ffee", 1}, {"c0ffee", 1}};
  EXPECT_THAT(api.lfs_batch(twice), Fails(ErrorCode::kInternal, "an object is asked for twice"));
  EXPECT_EQ(server_->requests().size(), 0u);
}

TEST(AskedWait, ReadsWhatServersWrite) {
  const auto of = [](int status, const char* name, std::string value) {
    HttpResponse response;
    response.status = status;
    response.headers = {{name, std::move(value)}};
    return asked_wait(response);
  };
  EXPECT_EQ(of(503, "retry-after", "120"), 120);
  EXPECT_EQ(of(503, "retry-after", "soon"), 0);
  EXPECT_EQ(of(503, "retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), 0);
  EXPECT_EQ(of(503, "retry-after", std::string(40, '9')), 1e9);
  std::time_t later = std::time(nullptr) + 100;
  char text[64];
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", std::gmtime(&later));
  EXPECT_NEAR(of(503, "retry-after", text), 100, 2);
  // huggingface_hub 2.4, utils/_http.py: "api";r=0;t=55.
  EXPECT_EQ(of(429, "ratelimit", "\"api\";r=0;t=55"), 56);
  EXPECT_EQ(of(429, "ratelimit", "\"api\";r=3;t=55"), 0);
  EXPECT_EQ(of(200, "ratelimit", "\"api\";r=0;t=55"), 0);
}

TEST(ServerMessage, IsOneLineWithoutTheToken) {
  const Token token = Token::make("hf_secret", "HF_TOKEN").value();
  HttpResponse response;
  response.body = R"({"error": "no\n\u001b[31m hf_secret \u009b x"})";
  EXPECT_EQ(server_message(response, token), "no  [31m *** \x20 x");
  response.headers = {{"x-error-message", "header"}};
  EXPECT_EQ(server_message(response, token), "header");
  response.headers.clear();
  response.body = "<html>";
  EXPECT_EQ(server_message(response, token), "");
  response.body = "{\"error\": \"" + std::string(5000, 'x') + "\"}";
  EXPECT_EQ(server_message(response, token).size(), 300u);
}

}  // namespace
}  // namespace shardkit::hub
