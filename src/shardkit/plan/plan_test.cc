#include "shardkit/plan/plan.h"

#include <gtest/gtest.h>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;
using testing::make_storage;

Piece piece(Box box, std::int32_t replica = 0, std::int32_t addend = 0) {
  Piece result;
  result.strides = contiguous_strides(box.shape);
  result.storage =
      make_storage(std::vector<float>(static_cast<std::size_t>(*element_count(box.shape))));
  result.box = std::move(box);
  result.replica = replica;
  result.addend = addend;
  return result;
}

CatalogTensor tensor_of(Dims shape, std::vector<Piece> pieces) {
  CatalogTensor tensor;
  tensor.name = "w";
  tensor.shape = std::move(shape);
  tensor.pieces = std::move(pieces);
  return tensor;
}

TEST(ProveWhole, EveryLayerMustCoverTheTensorOnce) {
  CatalogTensor tensor = tensor_of({4}, {piece({{0}, {2}}), piece({{2}, {2}})});
  EXPECT_THAT(prove_whole(tensor), IsOk());
  tensor.replicas = 2;
  EXPECT_THAT(prove_whole(tensor),
              Fails(ErrorCode::kIncomplete, "tensor 'w', expected 4 elements, found 0"));
  tensor.pieces.push_back(piece({{0}, {4}}, 1));
  EXPECT_THAT(prove_whole(tensor), IsOk());
  tensor.pieces.push_back(piece({{0}, {1}}, 1));
  EXPECT_THAT(prove_whole(tensor), Fails(ErrorCode::kIncomplete, "same elements"));
}

TEST(ProveWhole, EveryPieceMustLieInItsStorage) {
  CatalogTensor tensor = tensor_of({4}, {piece({{0}, {4}})});
  tensor.pieces[0].offset = 1;
  EXPECT_THAT(prove_whole(tensor), Fails(ErrorCode::kCorrupt, "leaves its storage"));
}

TEST(ProveWhole, PiecesOutOfOrderAreOurMistake) {
  EXPECT_THAT(prove_whole(tensor_of({4}, {piece({{0}, {4}}), piece({{0}, {4}}, 1)})),
              Fails(ErrorCode::kInternal, "belongs to no layer"));
}

TEST(ProveWhole, AShapeThatNoTensorHasIsRefused) {
  for (const Dims& shape : {Dims{4, -1}, Dims{std::int64_t{1} << 62, 4}})
    EXPECT_THAT(prove_whole(tensor_of(shape, {})),
                Fails(ErrorCode::kCorrupt,
                      "a size is negative, or the shape has too many elements: tensor 'w', found " +
                          to_string(shape)));
}

TEST(ProveWhole, AFactorOfAFoldIsNotFolded) {
  const auto factor = [](Dims shape) {
    return std::make_shared<CatalogTensor>(tensor_of(shape, {piece(whole(shape))}));
  };
  const auto a = factor({1, 2});
  CatalogTensor tensor = tensor_of({3, 2}, {piece(whole({3, 2}))});
  const auto fold = std::make_shared<Fold>();
  fold->a = a;
  fold->b = factor({3, 1});
  tensor.fold = fold;
  EXPECT_THAT(prove_whole(tensor), IsOk());
  a->name = "a";
  a->fold = fold;
  EXPECT_THAT(prove_whole(tensor),
              Fails(ErrorCode::kInternal, "an adapter's factor has an adapter itself: tensor 'a'"));
  a->fold = nullptr;  // no ring of owners
}

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    catalog_->tensors.push_back(tensor_of({4}, {piece({{0}, {2}}), piece({{2}, {2}})}));
    file_.name = "out";
    file_.head = "12345678";
    file_.tensors = {{0, DType::kBFloat16, 8}};
    file_.bytes = 16;
  }

  Result<Plan> make() { return Plan::make(catalog_, {file_}, ReplicaPolicy::kCompare); }

  std::shared_ptr<Catalog> catalog_ = std::make_shared<Catalog>();
  PlannedFile file_;
};

TEST_F(PlanTest, TheSummaryCounts) {
  catalog_->tensors[0].replicas = 2;
  catalog_->tensors[0].pieces.push_back(piece({{0}, {4}}, 1));
  const auto plan = make();
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->summary().tensors, 1u);
  EXPECT_EQ(plan->summary().casts, 1u);
  EXPECT_EQ(plan->summary().pieces, 3u);
  EXPECT_EQ(plan->summary().compared_replicas, 1u);
  EXPECT_EQ(plan->summary().read_bytes, 32u);
  EXPECT_EQ(plan->summary().write_bytes, 16u);
}

TEST_F(PlanTest, CastsAndReductionsMustExist) {
  catalog_->tensors[0].dtype = DType::kInt32;
  EXPECT_THAT(make(), Fails(ErrorCode::kUnsupported, "no cast"));
  file_.tensors[0].dtype = DType::kInt32;
  file_.bytes = 24;
  EXPECT_THAT(make(), IsOk());
  catalog_->tensors[0].reduction = Accumulation::kAvg;
  EXPECT_THAT(make(), Fails(ErrorCode::kUnsupported, "int32"));
  catalog_->tensors[0].reduction = Accumulation::kSum;
  EXPECT_THAT(make(), IsOk());
  catalog_->tensors[0].dtype = DType::kFloat8E5M2;
  file_.tensors[0].dtype = DType::kFloat8E5M2;
  file_.bytes = 12;
  EXPECT_THAT(make(), Fails(ErrorCode::kUnsupported, "float8_e5m2"));
}

TEST_F(PlanTest, PartsMustTileTheirFile) {
  file_.bytes = 17;
  EXPECT_THAT(make(), Fails(ErrorCode::kInternal, "expected 16, found 17"));
  file_.bytes = 16;
  file_.tensors[0].offset = 9;
  EXPECT_THAT(make(), Fails(ErrorCode::kInternal, "do not follow each other"));
}

TEST_F(PlanTest, AFileHasALargestSize) {
  catalog_->tensors[0].shape = {std::int64_t{1} << 62};
  EXPECT_THAT(make(), Fails(ErrorCode::kLimit,
                            "an output file is larger than any file can be: file 'out'"));
}

}  // namespace
}  // namespace shardkit
