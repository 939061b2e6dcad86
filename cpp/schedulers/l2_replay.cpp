// The replay: clusters step along K together and ask their partitions, which ask each other.
#include "schedulers/l2_replay.hpp"

#include <algorithm>
#include <utility>

#include "schedulers/lru.hpp"
#include "tk/grid/order.hpp"

namespace tk::schedulers {
namespace {

/// Where a cluster is in its walk.
struct walker {
    std::int64_t item;
    std::int64_t place = 0;  // batch and tile
    int row = 0, col = 0;
    int cell = 0;           // of the steps of all splits, the one it comes to
    int last_cell = 0;      // of its item
    std::int32_t base = 0;  // of the entries of its batch
};

class replay {
  public:
    explicit replay(const l2_work& work)
        : work_(work),
          order_(work.order_kind, work.order_param, work.rows, work.cols, work.order_table.data()),
          tiles_(std::int64_t{work.rows} * work.cols),
          panels_(work.rows + work.cols),
          items_(work.batch * tiles_ * work.splits) {
        const int shortest = work.k_tiles / work.splits, longer = work.k_tiles % work.splits;
        for (int split = 0; split < work.splits; ++split) {
            first_cells_.push_back(static_cast<int>(cells_.size()));
            int left = shortest + (split < longer ? 1 : 0);
            for (; left > 0; left -= work.k_step) cells_.push_back(std::min(left, work.k_step));
        }
        first_cells_.push_back(static_cast<int>(cells_.size()));
        first_sum_ = work.batch * std::int64_t(cells_.size()) * panels_;
        first_out_ = first_sum_ + (work.splits > 1 ? items_ : 0);
        const auto entries = static_cast<std::int32_t>(first_out_ + work.batch * tiles_);
        caches_.assign(static_cast<std::size_t>(work.partitions), {entries, work.capacity});
        if (work.splits > 1) arrived_.resize(static_cast<std::size_t>(work.batch * tiles_));
    }

    l2_counts run() {
        const auto clusters = static_cast<std::int64_t>(work_.delays.size());
        if (work_.by_wave) {
            counts_.waves.resize(static_cast<std::size_t>((items_ + clusters - 1) / clusters));
        }
        std::vector<walker> walkers;
        for (std::int64_t item = 0; item < std::min(clusters, items_); ++item) {
            begin(walkers.emplace_back(), item);
        }
        std::size_t running = walkers.size();
        for (int now = 0; running > 0; ++now) {
            for (std::size_t c = 0; c < walkers.size(); ++c) {
                walker& w = walkers[c];
                if (now < work_.delays[c] || w.item >= items_) continue;
                load(w, work_.near[c], w.item / clusters);
                if (++w.cell < w.last_cell) continue;
                finish(w);
                begin(w, w.item + clusters);
                if (w.item >= items_) --running;
            }
        }
        return std::move(counts_);
    }

  private:
    void begin(walker& w, std::int64_t item) {
        w.item = item;
        if (item >= items_) return;
        w.place = item / work_.splits;
        const auto split = static_cast<std::size_t>(item - w.place * work_.splits);
        const std::int64_t batch = w.place / tiles_;
        const tile_coord tile = order_.at(static_cast<int>(w.place - batch * tiles_));
        w.row = tile.row, w.col = tile.col;
        w.cell = first_cells_[split], w.last_cell = first_cells_[split + 1];
        w.base = static_cast<std::int32_t>(batch * std::int64_t(cells_.size()) * panels_);
    }

    void load(const walker& w, int near, std::int64_t wave) {
        const std::int64_t k_tiles = cells_[static_cast<std::size_t>(w.cell)];
        const std::int32_t first = w.base + w.cell * panels_;
        const auto a = ask(near, first + w.row, w.row + w.cell, k_tiles * work_.a_bytes);
        const auto b =
            ask(near, first + work_.rows + w.col, w.col + w.cell, k_tiles * work_.b_bytes);
        const auto count = [&](l2_loads& loads) {
            loads.a_requested += k_tiles, loads.b_requested += k_tiles;
            if (a.crossed) loads.a_crossed += k_tiles;
            if (b.crossed) loads.b_crossed += k_tiles;
            if (a.read) loads.a_read += k_tiles;
            if (b.read) loads.b_read += k_tiles;
        };
        count(counts_.total);
        if (work_.by_wave) count(counts_.waves[static_cast<std::size_t>(wave)]);
    }

    struct answer {
        bool crossed = false, read = false;
    };
    // `place` modulo the partitions is the entry's home.
    answer ask(int near, std::int32_t entry, int place, std::int64_t bytes) {
        if (cache(near).touch(entry)) return {};
        const int home = place % work_.partitions;
        answer how{.crossed = home != near};
        if (!how.crossed || !cache(home).touch(entry)) {
            how.read = true;
            insert(home, entry, bytes);
        }
        if (how.crossed) insert(near, entry, bytes);
        return how;
    }

    // Outputs and sums lie in all partitions, a share in each.
    void finish(const walker& w) {
        if (work_.splits > 1) {
            store(first_sum_ + w.item, work_.sum_bytes);
            if (++arrived_[static_cast<std::size_t>(w.place)] < work_.splits) return;
            for (int split = 0; split < work_.splits; ++split) {
                const auto sum = static_cast<std::int32_t>(first_sum_ + w.place * work_.splits);
                for (lru_cache& one : caches_) {
                    ++counts_.sums_requested;
                    if (!one.touch(sum + split)) ++counts_.sums_read;
                }
            }
        }
        store(first_out_ + w.place, work_.out_bytes);
    }

    void store(std::int64_t entry, std::int64_t bytes) {
        for (int partition = 0; partition < work_.partitions; ++partition) {
            insert(partition, static_cast<std::int32_t>(entry), bytes / work_.partitions);
        }
    }

    void insert(int partition, std::int32_t entry, std::int64_t bytes) {
        cache(partition).insert(entry, bytes, [this](std::int32_t dropped) {
            if (dropped >= first_out_) {
                ++counts_.outs_evicted;
            } else if (dropped >= first_sum_) {
                ++counts_.sums_evicted;
            }
        });
    }

    lru_cache& cache(int partition) { return caches_[static_cast<std::size_t>(partition)]; }

    const l2_work& work_;
    tile_order order_;
    std::int64_t tiles_;
    std::int32_t panels_;
    std::int64_t items_;
    std::vector<int> first_cells_;  // of each split, and one past the last
    std::vector<int> cells_;        // K tiles of each step, split after split
    // Entries: the panels' steps, the sums of splits, the outputs.
    std::int64_t first_sum_ = 0, first_out_ = 0;
    std::vector<int> arrived_;  // splits of each output
    std::vector<lru_cache> caches_;
    l2_counts counts_;
};

}  // namespace

l2_counts replay_l2(const l2_work& work) { return replay(work).run(); }

}  // namespace tk::schedulers
