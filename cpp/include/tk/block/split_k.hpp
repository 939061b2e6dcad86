// Products split along K: which K tiles a split takes, and the sum of the parts, always in the
// same order, so that a result has the same bits on every run. The parts meet in global memory, or
// in the shared memory of a cluster whose blocks are the splits of one tile.
#pragma once
#include "tk/tile/group.hpp"

TK_NAMESPACE_BEGIN

struct split_k {
    int splits = 1;
    int tiles = 0;               // K tiles of a split,
    int longer = 0;              // of which the first `longer` have one more
    float* workspace = nullptr;  // the parts: a register tile for each split of each owner
    int* counters = nullptr;     // one an owner; 0 before and after

    split_k() = default;
    split_k(int splits_, int k_tiles, float* workspace_, int* counters_)
        : splits(splits_),
          tiles(k_tiles / splits_),
          longer(k_tiles % splits_),
          workspace(workspace_),
          counters(counters_) {}

    TK_HOST_DEVICE int begin(int split) const {
        return split * tiles + (split < longer ? split : longer);
    }
    TK_HOST_DEVICE int count(int split) const { return tiles + (split < longer ? 1 : 0); }

    // Parks this split's part; the last split to come adds all of them and returns true. By a
    // warpgroup; `owner` numbers the warpgroups' register tiles over the whole output, and `vote`
    // is a word of shared memory of this warpgroup's own.
    template <class R>
    TK_DEVICE bool sum(R& part, int split, int owner, int valid_rows, int* vote,
                       int barrier_id) const {
        constexpr int64_t floats = int64_t(R::rows) * 4 * R::cols;
        float* const slots = workspace + owner * int64_t(splits) * floats;
        warpgroup::store_fragment(slots + split * floats, part, valid_rows);
        if (!warpgroup::arrive_last(counters + owner, splits, vote, barrier_id)) return false;
        warpgroup::sum_fragments(part, slots, splits, floats, valid_rows);
        return true;
    }

    // The same between the blocks of a cluster, each of which has one task. Part `number` of the
    // tile ends, with true, in block number % splits: `slots` there is shared memory for the parts
    // of the other blocks, and `arrived` its semaphore of one arrival. No part but of 64 rows.
    template <class R>
    TK_DEVICE bool sum_in_cluster(R& part, int number, int valid_rows, float* slots,
                                  semaphore& arrived) const {
        constexpr int floats = R::rows * 4 * R::cols;
        static_assert(R::rows == 16, "sum_in_cluster: a part has 64 rows, 16 of each warp");
        const int owner = number % splits, rank = cluster::rank();
        if (rank != owner) {
            float* const slot = slots + (rank < owner ? rank : rank - 1) * floats;
            warpgroup::send_fragment(slot, part, owner, arrived, valid_rows);
            return false;
        }
        const int warps = valid_rows <= 0 ? 0 : valid_rows >= 64 ? 4 : (valid_rows + 15) / 16;
        if (warpgroup::warpid() == 0) {
            warp::expect_bytes(arrived, (splits - 1) * warps * (floats / 4) * int(sizeof(float)));
        }
        wait(arrived, 0);
        warpgroup::add_fragments(part, slots, splits - 1, floats, valid_rows);
        return true;
    }
};

TK_NAMESPACE_END
