// Conformance of process groups: every function moves and reduces what it should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "shardkit/collective/conformance_test_util.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::testing {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 7, 4096, 100003};

// From nothing to some thousand bytes, another number for most pairs of ranks.
std::size_t uneven(int from, int to) {
  return static_cast<std::size_t>((from * 5 + to * 3) % 7) * 1201;
}

TEST_P(CollectiveData, KnowsRankAndSize) {
  expect_all_ok([this](ProcessGroup& group) -> Status {
    std::vector<std::byte> seen(static_cast<std::size_t>(size()));
    const std::byte mine = static_cast<std::byte>(group.rank());
    SHARDKIT_TRY(group.all_gather(std::span(&mine, 1), std::span<std::byte>(seen)));
    for (int i = 0; i < size(); ++i)
      SHARDKIT_TRY(expect(seen[static_cast<std::size_t>(i)] == std::byte(i), "each rank once"));
    return expect(group.size() == size(), "the size that was asked for");
  });
}

TEST_P(CollectiveData, Broadcasts) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    for (const std::size_t bytes : kSizes)
      for (int root = 0; root < group.size(); ++root) {
        std::vector<std::byte> buffer(bytes, kUntouched);
        if (group.rank() == root) buffer = message(root, 0, bytes);
        SHARDKIT_TRY(group.broadcast(buffer, root));
        SHARDKIT_TRY(expect(buffer == message(root, 0, bytes), "the root's bytes"));
      }
    return {};
  });
}

TEST_P(CollectiveData, GathersEvenPartsOnAll) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    for (const std::size_t bytes : kSizes) {
      std::vector<std::byte> all(bytes * static_cast<std::size_t>(group.size()), kUntouched);
      std::vector<std::byte> expected;
      for (int i = 0; i < group.size(); ++i) {
        const auto part = message(i, 0, bytes);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      SHARDKIT_TRY(group.all_gather(message(group.rank(), 0, bytes), std::span<std::byte>(all)));
      SHARDKIT_TRY(expect(all == expected, "the parts in the order of ranks"));
    }
    return {};
  });
}

TEST_P(CollectiveData, GathersUnevenPartsOnAll) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    Buffers all;
    for (int i = 0; i < group.size(); ++i) all.add_room(uneven(i, 0));
    const auto mine = message(group.rank(), 0, uneven(group.rank(), 0));
    SHARDKIT_TRY(group.all_gather(mine, all.writable()));
    for (int i = 0; i < group.size(); ++i)
      SHARDKIT_TRY(expect(all.data[static_cast<std::size_t>(i)] == message(i, 0, uneven(i, 0)),
                          "each rank's part"));
    return {};
  });
}

TEST_P(CollectiveData, GathersInPlace) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    Buffers all;
    for (int i = 0; i < group.size(); ++i) all.add_room(uneven(i, 1));
    auto& mine = all.data[static_cast<std::size_t>(group.rank())];
    mine = message(group.rank(), 1, mine.size());
    SHARDKIT_TRY(group.all_gather(mine, all.writable()));
    for (int i = 0; i < group.size(); ++i)
      SHARDKIT_TRY(expect(all.data[static_cast<std::size_t>(i)] == message(i, 1, uneven(i, 1)),
                          "each rank's part"));
    return {};
  });
}

TEST_P(CollectiveData, GathersOnOne) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    for (int root = 0; root < group.size(); ++root) {
      Buffers all;
      for (int i = 0; i < group.size() && group.rank() == root; ++i) all.add_room(uneven(i, root));
      const auto mine = message(group.rank(), root, uneven(group.rank(), root));
      SHARDKIT_TRY(group.gather(mine, all.writable(), root));
      for (int i = 0; i < group.size() && group.rank() == root; ++i)
        SHARDKIT_TRY(
            expect(all.data[static_cast<std::size_t>(i)] == message(i, root, uneven(i, root)),
                   "each rank's part"));
    }
    return {};
  });
}

TEST_P(CollectiveData, ScattersFromOne) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    for (int root = 0; root < group.size(); ++root) {
      Buffers all;
      for (int i = 0; i < group.size() && group.rank() == root; ++i)
        all.add(message(root, i, uneven(root, i)));
      std::vector<std::byte> mine(uneven(root, group.rank()), kUntouched);
      SHARDKIT_TRY(group.scatter(all.readable(), mine, root));
      SHARDKIT_TRY(expect(mine == message(root, group.rank(), uneven(root, group.rank())),
                          "this rank's part"));
    }
    return {};
  });
}

TEST_P(CollectiveData, ExchangesAllToAll) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    Buffers send;
    Buffers receive;
    for (int i = 0; i < group.size(); ++i) {
      send.add(message(group.rank(), i, uneven(group.rank(), i)));
      receive.add_room(uneven(i, group.rank()));
    }
    SHARDKIT_TRY(group.all_to_all(send.readable(), receive.writable()));
    for (int i = 0; i < group.size(); ++i)
      SHARDKIT_TRY(expect(receive.data[static_cast<std::size_t>(i)] ==
                              message(i, group.rank(), uneven(i, group.rank())),
                          "each rank's part"));
    return {};
  });
}

TEST_P(CollectiveData, ExchangesAllToAllInPlace) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    Buffers all;
    for (int i = 0; i < group.size(); ++i) all.add_room(uneven(i, 1));
    auto& mine = all.data[static_cast<std::size_t>(group.rank())];
    mine = message(group.rank(), 1, mine.size());
    // Every rank sends the same bytes to all, itself included.
    const std::vector<std::span<const std::byte>> send(static_cast<std::size_t>(group.size()),
                                                       mine);
    SHARDKIT_TRY(group.all_to_all(send, all.writable()));
    for (int i = 0; i < group.size(); ++i)
      SHARDKIT_TRY(expect(all.data[static_cast<std::size_t>(i)] == message(i, 1, uneven(i, 1)),
                          "each rank's part"));
    return {};
  });
}

TEST_P(CollectiveData, NobodyPassesABarrierAlone) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    // The clock is the same for all ranks of a host.
    using Ticks = std::chrono::steady_clock::rep;
    const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * group.rank()));
    const Ticks came = now();
    SHARDKIT_TRY(group.barrier());
    const Ticks passed = now();
    std::vector<Ticks> all(static_cast<std::size_t>(group.size()));
    SHARDKIT_TRY(group.all_gather(std::as_bytes(std::span(&came, 1)),
                                  std::as_writable_bytes(std::span(all))));
    for (const Ticks other : all) SHARDKIT_TRY(expect(other <= passed, "all had come"));
    return {};
  });
}

// -- all_reduce. All values are small integers, for which every type but the integers that wrap is
// exact, so that the expected elements follow from integer arithmetic.

std::uint64_t float_bits(DType dtype, std::int64_t value) {
  if (dtype == DType::kFloat64) {
    const auto number = static_cast<double>(value);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &number, 8);
    return bits;
  }
  const auto number = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &number, 4);
  if (dtype == DType::kFloat32) return bits;
  if (dtype == DType::kBFloat16) return bits >> 16;
  // float16: the same sign and mantissa, an exponent of bias 15 in place of 127.
  if (value == 0) return 0;
  const std::uint32_t exponent = ((bits >> 23) & 0xff) - 127 + 15;
  return (bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 0x3ff);
}

std::vector<std::byte> elements(DType dtype, const std::vector<std::int64_t>& values) {
  const auto item = static_cast<std::size_t>(item_bytes(dtype));
  std::vector<std::byte> data(values.size() * item);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t bits =
        is_integer(dtype) ? static_cast<std::uint64_t>(values[i]) : float_bits(dtype, values[i]);
    std::memcpy(data.data() + i * item, &bits, item);  // little-endian, as every dtype here
  }
  return data;
}

// What rank `rank` has at place i. The result must fit 8 bits, the mantissa of bfloat16; averages
// must be whole.
std::int64_t addend(Accumulation op, DType dtype, int rank, int size, int i) {
  const bool is_unsigned = dtype == DType::kUInt8 || dtype == DType::kUInt16 ||
                           dtype == DType::kUInt32 || dtype == DType::kUInt64;
  if (is_integer(dtype)) return (rank * 37 + i * 11) % 120 - (is_unsigned ? 0 : 60);
  const std::int64_t small = (rank * 5 + i * 3) % 9 - 4;
  if (op == Accumulation::kProduct) return small % 2 == 0 ? 2 : -1;
  return op == Accumulation::kAvg ? small * size : small;
}

std::int64_t reduced(Accumulation op, DType dtype, int size, int i) {
  std::int64_t result = addend(op, dtype, 0, size, i);
  for (int rank = 1; rank < size; ++rank) {
    const std::int64_t next = addend(op, dtype, rank, size, i);
    const auto a = static_cast<std::uint64_t>(result);
    const auto b = static_cast<std::uint64_t>(next);
    switch (op) {
      case Accumulation::kSum:
      case Accumulation::kAvg: result += next; break;
      case Accumulation::kMin: result = std::min(result, next); break;
      case Accumulation::kMax: result = std::max(result, next); break;
      case Accumulation::kProduct: result = static_cast<std::int64_t>(a * b); break;
    }
  }
  return op == Accumulation::kAvg ? result / size : result;
}

constexpr Accumulation kAccumulations[] = {Accumulation::kSum, Accumulation::kAvg,
                                           Accumulation::kMin, Accumulation::kMax,
                                           Accumulation::kProduct};

TEST_P(CollectiveData, ReducesEveryDType) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    for (int type = 0; type < kDTypeCount; ++type)
      for (const Accumulation op : kAccumulations) {
        const auto dtype = static_cast<DType>(type);
        const bool is_float = dtype == DType::kFloat64 || dtype == DType::kFloat32 ||
                              dtype == DType::kFloat16 || dtype == DType::kBFloat16;
        if (!is_float && (!is_integer(dtype) || op == Accumulation::kAvg)) continue;
        for (const int count : {0, 1, 5, 6151}) {
          std::vector<std::int64_t> mine;
          std::vector<std::int64_t> expected;
          for (int i = 0; i < count; ++i) {
            mine.push_back(addend(op, dtype, group.rank(), group.size(), i));
            expected.push_back(reduced(op, dtype, group.size(), i));
          }
          std::vector<std::byte> buffer = elements(dtype, mine);
          SHARDKIT_TRY(group.all_reduce(op, dtype, buffer));
          SHARDKIT_TRY(expect(buffer == elements(dtype, expected),
                              "operation " + std::to_string(static_cast<int>(op)) + " on " +
                                  std::to_string(count) + " " + std::string(torch_name(dtype))));
        }
      }
    return {};
  });
}

TEST_P(CollectiveData, AddsInTheOrderOfRanks) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    // Next to 1e8, float32 loses whatever is below 4. From three ranks on, the other way round all
    // of them sum up to 1; exactly, to 1, 4 and 6.5.
    constexpr float kAddends[] = {1, 1e8F, -1e8F, 3, 1e8F, -1e8F, 0.5F, 2};
    const float expected = group.size() == 1   ? 1.0F
                           : group.size() == 2 ? 1e8F
                           : group.size() == 3 ? 0.0F
                           : group.size() == 4 ? 3.0F
                                               : 2.5F;
    std::vector<float> buffer(1000, kAddends[group.rank()]);
    SHARDKIT_TRY(group.all_reduce(Accumulation::kSum, DType::kFloat32,
                                  std::as_writable_bytes(std::span(buffer))));
    return expect(buffer == std::vector<float>(1000, expected), "the sum in the order of ranks");
  });
}

TEST_P(CollectiveData, RoundsOnce) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    // 256 + 1 + 1 ...: bfloat16 has no 257, so that rounding each sum would stay at 256.
    const int sum = 256 + group.size() - 1;
    const int nearest_even = sum % 2 == 0 ? sum : (sum / 2 % 2 == 0 ? sum - 1 : sum + 1);
    auto buffer = elements(DType::kBFloat16, {group.rank() == 0 ? 256 : 1});
    SHARDKIT_TRY(group.all_reduce(Accumulation::kSum, DType::kBFloat16, buffer));
    return expect(buffer == elements(DType::kBFloat16, {nearest_even}), "one rounding");
  });
}

// -- subgroups

std::vector<std::byte> ranks_of(ProcessGroup& group, int rank) {
  std::vector<std::byte> all(static_cast<std::size_t>(group.size()));
  const auto mine = static_cast<std::byte>(rank);
  const Status status = group.all_gather(std::span(&mine, 1), std::span<std::byte>(all));
  return status.ok() ? all : std::vector<std::byte>();
}

std::vector<std::byte> bytes_of(const std::vector<int>& ranks) {
  std::vector<std::byte> bytes;
  for (const int rank : ranks) bytes.push_back(static_cast<std::byte>(rank));
  return bytes;
}

TEST_P(CollectiveData, SplitsByLists) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    const int rank = group.rank();
    std::vector<int> backwards(static_cast<std::size_t>(group.size()));
    std::iota(backwards.rbegin(), backwards.rend(), 0);
    std::vector<int> parity;
    for (int i = rank % 2; i < group.size(); i += 2) parity.push_back(i);

    SHARDKIT_ASSIGN(auto all, group.split(backwards));
    SHARDKIT_ASSIGN(auto one, group.split(std::vector<int>{rank}));
    SHARDKIT_ASSIGN(auto half, group.split(parity));
    SHARDKIT_ASSIGN(auto some, group.split(rank % 2 == 0 ? parity : std::vector<int>()));

    SHARDKIT_TRY(expect(all->rank() == group.size() - 1 - rank, "ranks in the list's order"));
    SHARDKIT_TRY(expect(ranks_of(*all, rank) == bytes_of(backwards), "all, backwards"));
    SHARDKIT_TRY(expect(one->rank() == 0 && one->size() == 1, "a group of one"));
    SHARDKIT_TRY(expect(ranks_of(*one, rank) == bytes_of({rank}), "itself"));
    SHARDKIT_TRY(expect(ranks_of(*half, rank) == bytes_of(parity), "every other rank"));
    SHARDKIT_TRY(expect((some == nullptr) == (rank % 2 == 1), "none where the list is empty"));
    return group.barrier();
  });
}

TEST_P(CollectiveData, SplitsByColor) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    const int rank = group.rank();
    // Ranks 0, 3, 6 join none; 1, 4, 7 and 2, 5 make a group each, the later ones first.
    SHARDKIT_ASSIGN(auto third, group.split(rank % 3 == 0 ? -1 : rank % 3, -rank));
    std::vector<int> expected;
    for (int i = group.size() - 1; i >= 0; --i)
      if (i % 3 == rank % 3) expected.push_back(i);
    SHARDKIT_TRY(expect((third == nullptr) == (rank % 3 == 0), "none for a negative color"));
    if (third) SHARDKIT_TRY(expect(ranks_of(*third, rank) == bytes_of(expected), "by key"));
    // Equal keys keep the order.
    SHARDKIT_ASSIGN(auto same, group.split(5, 0));
    return expect(same->rank() == rank && same->size() == group.size(), "the same group again");
  });
}

TEST_P(CollectiveData, OverlappingSubgroupsAtATime) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    // Rows of two, and columns across them; the ranks of one row work in another column each.
    const int rank = group.rank();
    SHARDKIT_ASSIGN(auto row, group.split(rank / 2, rank));
    SHARDKIT_ASSIGN(auto column, group.split(rank % 2, rank));
    std::vector<int> in_row;
    std::vector<int> in_column;
    for (int i = 0; i < group.size(); ++i) {
      if (i / 2 == rank / 2) in_row.push_back(i);
      if (i % 2 == rank % 2) in_column.push_back(i);
    }
    for (int i = 0; i < 100; ++i) {
      SHARDKIT_TRY(expect(ranks_of(*row, rank) == bytes_of(in_row), "the row"));
      if (i % 3 == 0) SHARDKIT_TRY(expect(ranks_of(group, rank).size() > 0, "the whole"));
      SHARDKIT_TRY(expect(ranks_of(*column, rank) == bytes_of(in_column), "the column"));
    }
    return {};
  });
}

TEST_P(CollectiveData, ManyThreadsEachWithAGroup) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    constexpr std::size_t kThreads = 4;
    std::vector<std::unique_ptr<ProcessGroup>> groups;
    for (std::size_t i = 0; i < kThreads; ++i) {
      SHARDKIT_ASSIGN(auto same, group.split(0, group.rank()));
      groups.push_back(std::move(same));
    }
    std::vector<Status> statuses(kThreads);
    {
      std::vector<std::jthread> threads;
      for (std::size_t t = 0; t < kThreads; ++t)
        threads.emplace_back([&mine = *groups[t], &status = statuses[t], t] {
          for (int i = 0; i < 50 && status.ok(); ++i) {
            const int root = i % mine.size();
            const auto expected = message(static_cast<int>(t), i, 1000 + t);
            auto buffer = mine.rank() == root ? expected : std::vector<std::byte>(1000 + t);
            status = mine.broadcast(buffer, root);
            if (status.ok()) status = expect(buffer == expected, "this thread's bytes");
          }
        });
    }
    for (Status& status : statuses) SHARDKIT_TRY(std::move(status));
    return {};
  });
}

TEST_P(CollectiveLarge, MovesMoreThan64MiB) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    constexpr std::size_t kBytes = (64 << 20) + 4;
    const auto expected = message(1, 0, kBytes);
    std::vector<std::byte> buffer(kBytes);
    if (group.rank() == 1) buffer = expected;
    SHARDKIT_TRY(group.broadcast(buffer, 1));
    SHARDKIT_TRY(expect(buffer == expected, "the root's bytes"));

    std::vector<std::int32_t> numbers(kBytes / 4);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<std::int32_t>(i) * (group.rank() + 1);
    SHARDKIT_TRY(group.all_reduce(Accumulation::kSum, DType::kInt32,
                                  std::as_writable_bytes(std::span(numbers))));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] != static_cast<std::int32_t>(i) * 3) return expect(false, "the sums");
    return {};
  });
}

}  // namespace
}  // namespace shardkit::testing
