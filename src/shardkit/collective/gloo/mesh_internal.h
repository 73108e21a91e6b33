// GlooMesh: the connections of one group, each rank with each other, over one gloo context.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"

namespace shardkit {

/// What groups of one process share: gloo's thread that moves bytes, and the alarm that ends waits.
class GlooDevice;

/// @param address  numeric, of this host
Result<std::shared_ptr<GlooDevice>> open_gloo_device(const std::string& address);

/// The call that a function of the mesh is a part of.
struct MeshCall {
  std::string_view op;      ///< for messages
  std::int64_t number = 0;  ///< of the group's calls
  std::chrono::steady_clock::time_point start;
  std::chrono::steady_clock::time_point deadline;
  std::string_view awaited = "come";  ///< what a rank that is late "had not", for messages
};

/// Why a rank has failed, and in which call; earlier ones have succeeded.
struct MeshFailure {
  Error error;
  std::int64_t call;
};

/// One rank's ends. One thread at a time uses an object.
///
/// gloo needs care: a receiver that is too small aborts the process, a wait that it times out
/// closes every connection, and whoever is in the middle of a message is not told that its peer
/// has died. So sizes are agreed on before, waits are ended by an alarm of ours, and a watcher that
/// sees the end of any connection wakes the thread that waits for another. After an error that a
/// function returned, tell_and_close() is all that may be called.
class GlooMesh {
 public:
  /// Opens the ports at which the other ranks shall connect.
  ///
  /// @param message_bytes  the longest message that exchange() will take; the same on all ranks
  static Result<std::unique_ptr<GlooMesh>> open(std::shared_ptr<GlooDevice> device, int rank,
                                                int size, std::size_t message_bytes);
  ~GlooMesh();

  const std::shared_ptr<GlooDevice>& device() const;

  /// What the others must know to connect: of a length that depends on size alone.
  const std::string& card() const;

  /// Connects with all others, until the call's deadline. @param cards  by rank @error kPeer
  Status connect(std::span<const std::string> cards, const MeshCall& call);

  /// Sends a message to each other rank and waits for one of each.
  ///
  /// @param messages  by rank, this one's is ignored; at most message_bytes each
  /// @return by rank, valid until the next call: message_bytes each, of which as many as the sender
  ///         had are its message; this rank's is empty
  /// @error kPeer  a rank is late, left or failed; the error that another rank told of
  Result<std::vector<std::string_view>> exchange(std::span<const std::string> messages,
                                                 const MeshCall& call);

  struct Sent {
    int peer;
    std::span<const std::byte> bytes;
  };
  struct Received {
    int peer;
    std::span<std::byte> bytes;
  };
  /// Moves bytes of any size. REQUIRES: each part fits one of its peer's, in the order of parts
  /// between two ranks, and is not empty
  /// @error as exchange()
  Status move(std::span<const Sent> send, std::span<const Received> receive, const MeshCall& call);

  /// What another rank has told of its failure.
  std::optional<MeshFailure> told();

  /// Tells the others why this rank fails, as far as they can be reached, and leaves. A failure of
  /// which it has been told is passed on, so that nobody takes its leaving for the cause.
  void tell_and_close(const MeshFailure& failure);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct State;
  explicit GlooMesh(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace shardkit
