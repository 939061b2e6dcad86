// The tasks of attention: which queries, of which heads and sequence, and which of their keys a
// block works on; and where the rows of a task lie in memory.
#pragma once
#include "kernels/attention/scores.hpp"

TK_NAMESPACE_BEGIN

// One task. Row r of its heads' packed queries is query r / pack of head head + r % pack.
struct attention_task {
    attention_lengths lengths;
    int batch, head, kv_head;
    int row_0;         // of the query tile
    int q_0, k_0;      // rows of the tensors before the sequence's own
    int last_tile;     // tiles of keys go from the last to the first: masked ones come first then,
    int tiles;         // and the first wait of a task is for one product alone
    int split, owner;  // which split; the number of the query tile among all
    int skipped;       // key tiles, the first ones, that none of a consumer's queries sees
};

struct attention_tasks {
    // Heads of all sequences x query tiles; of packed sequences heads x query tiles of all
    // sequences, of which the last may not be there.
    tile_order order;
    bool longest_first = false;  // the last query tile is the first
    fast_divider splits;         // of a query tile
    fast_divider heads;          // of a sequence that have query tiles of their own,
    fast_divider pack;           // so many query heads each
    fast_divider sharers;        // query heads for each key head
    attention_lengths lengths;   // of all sequences, unless there are
    const int32_t *first_queries = nullptr, *first_keys = nullptr;
    int sequences = 0;

    TK_HOST_DEVICE int count() const { return order.rows * order.cols * int(splits.divisor); }
    TK_DEVICE int packed() const { return int(pack.divisor); }
    TK_DEVICE int rows(const attention_task& task) const { return task.lengths.queries * packed(); }
    // The batch coordinate in the tensors of rows.
    TK_DEVICE int batch_of(const attention_task& task) const {
        return first_queries == nullptr ? task.batch : 0;
    }
    TK_DEVICE int query_of(int row) const {
        const int query = int(pack.divide(uint32_t(row)));
        return packed() == 1 ? row : query;
    }
    // The queries of rows [first, first + count) of a task, those that it has.
    TK_DEVICE attention_range queries(const attention_task& task, int first, int count) const {
        const int end = first + count < rows(task) ? first + count : rows(task);
        return {query_of(first), query_of(end - 1) + 1};
    }
    TK_DEVICE score_place place(const attention_task& task, int row, int key) const {
        const int query = query_of(row);
        return {task.batch, task.head + row - query * packed(), query, key, task.lengths};
    }
    // Where a row lies in a tensor with these strides of row, head and batch; null if there is
    // none.
    template <class T>
    TK_DEVICE T* address(T* data, const int64_t (&strides)[3], const attention_task& task,
                         int row) const {
        if (data == nullptr || row >= rows(task)) return nullptr;
        const int query = query_of(row), head = task.head + row - query * packed();
        return data + (task.q_0 + query) * strides[0] + head * strides[1] +
               batch_of(task) * strides[2];
    }

    // Task `index` for query tiles of tile_q rows and key tiles of tile_k keys.
    template <class Scores>
    TK_DEVICE void get(int index, int tile_q, int tile_k, const Scores& scores,
                       attention_task& task) const {
        const int num_splits = int(splits.divisor);
        task.owner = int(splits.divide(uint32_t(index)));
        task.split = index - task.owner * num_splits;
        const tile_coord at = order.at(task.owner);
        int head = at.row, column = longest_first ? order.cols - 1 - at.col : at.col;
        if (first_queries == nullptr) {
            task.batch = int(heads.divide(uint32_t(head)));
            head -= task.batch * int(heads.divisor);
            task.lengths = lengths, task.q_0 = 0, task.k_0 = 0;
        } else {
            find_sequence(column, tile_q, task);
        }
        task.head = head * packed();
        task.kv_head = packed() > 1 ? head : int(sharers.divide(uint32_t(head)));
        task.row_0 = column * tile_q;
        task.tiles = 0, task.last_tile = 0;
        if (task.row_0 >= rows(task)) return;
        const attention_range keys = scores.keys(queries(task, task.row_0, tile_q), task.lengths);
        if (keys.end <= keys.first) return;
        const int first_tile = keys.first / tile_k, end_tile = (keys.end + tile_k - 1) / tile_k;
        const int all = end_tile - first_tile, each = int(splits.divide(uint32_t(all)));
        const int longer = all - each * num_splits;  // so many splits have a tile more
        task.tiles = each + (task.split < longer ? 1 : 0);
        task.last_tile =
            end_tile - 1 - (task.split * each + (task.split < longer ? task.split : longer));
    }

    // For a consumer's 64 rows. The last tile is not skipped, though it may be hidden as well:
    // somebody must have read the queries.
    template <class Scores>
    TK_DEVICE void skip_hidden(int row, int tile_k, const Scores& scores,
                               attention_task& task) const {
        const int end = scores.keys(queries(task, row, 64), task.lengths).end;
        const int hidden = task.last_tile - (end - 1) / tile_k;
        task.skipped = hidden < task.tiles - 1 ? hidden : task.tiles - 1;
        if (task.skipped < 0) task.skipped = 0;
    }

  private:
    // The packed sequence that a column is a query tile of; the column becomes the tile's number in
    // it. Beyond the last there is an empty one.
    TK_DEVICE void find_sequence(int& column, int tile_q, attention_task& task) const {
        const auto tiles_of = [&](int i) {
            return ((first_queries[i + 1] - first_queries[i]) * packed() + tile_q - 1) / tile_q;
        };
        const auto [sequence, before] = warp::locate(sequences, tiles_of, column);
        column -= before;
        task.batch = sequence, task.q_0 = 0, task.k_0 = 0, task.lengths = {0, 0};
        if (sequence == sequences) return;
        task.q_0 = first_queries[sequence], task.k_0 = first_keys[sequence];
        task.lengths = {first_queries[sequence + 1] - task.q_0,
                        first_keys[sequence + 1] - task.k_0};
    }
};

TK_NAMESPACE_END
