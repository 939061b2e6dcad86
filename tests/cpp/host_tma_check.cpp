// TMA on the emulated machine: the values of tma_values.hpp and
// tma_cluster_values.hpp, and what the machine says of misuse.
// See host_check.hpp.
#include "host_check.hpp"
#include "tma_cluster_values.hpp"

namespace {

using namespace host_check;
using vector = sv_fl<32>;
using boxed = st_bf<64, 128>;
using bf_gl = gl<bf16, -1, -1, -1, -1, bf_tile>;

// `make` must be refused with a message in which all the words occur.
template <class F>
void refuses(const std::vector<std::string>& words, F&& make) {
    std::string message;
    try {
        make();
    } catch (const std::runtime_error& error) {
        message = error.what();
    }
    for (const std::string& word : words) {
        host_check::require(message.find(word) != std::string::npos,
                            "\"" + word + "\" is not in the message: " + message);
    }
}

// A tensor of plenty of zeros for what only has to be there.
template <class G>
struct some {
    std::vector<typename G::dtype> memory = std::vector<typename G::dtype>(65536);
    G tensor;
    explicit some(const gl_shape& shape, int parts = 1)
        : tensor(make_gl<G>(memory.data(), shape, gl_strides(shape), parts)) {}
};

const test_table misuse = {
    {"what_tma_refuses_is_refused_by_dimension",
     [] {
         std::vector<bf16> data(4096);
         bf16* const base = data.data();
         refuses({"(batch, depth, rows, cols) = (1, 1, 8, 8)", "2 bytes past a multiple of 16"},
                 [&] { make_gl<bf_gl>(base + 1, {8, 8}); });
         refuses({"its address is null"}, [&] { make_gl<bf_gl>(nullptr, {8, 8}); });
         refuses({"0 blocks share the copies"},
                 [&] { make_gl<bf_gl>(base, {8, 8}, {0, 0, 8}, 0); });
         refuses({"the stride of rows is 18 bytes", "a multiple of 16 from 16"},
                 [&] { make_gl<bf_gl>(base, {8, 8}, {0, 0, 9}); });
         refuses({"the stride of depth is 136 bytes"},
                 [&] { make_gl<bf_gl>(base, {2, 8, 8}, {0, 68, 8}); });
         refuses({"the stride of batch is 136 bytes"},
                 [&] { make_gl<bf_gl>(base, {2, 1, 8, 8}, {68, 0, 8}); });
         refuses({"the stride of rows is 1099511627776 bytes", "2^40 - 16"},
                 [&] { make_gl<bf_gl>(base, {8, 8}, {0, 0, int64_t(1) << 39}); });
         refuses({"the stride of rows is 0 bytes"},
                 [&] { make_gl<bf_gl>(base, {8, 8}, {0, 0, 0}); });
         refuses({"the stride of cols is 2 elements, and must be 1"},
                 [&] { make_gl<bf_gl>(base, {8, 8}, {0, 0, 16, 2}); });
         refuses({"the number of rows is 4294967297, and must be 1 to 2^32"},
                 [&] { make_gl<bf_gl>(base, {(int64_t(1) << 32) + 1, 8}, {0, 0, 8}); });
         refuses({"its boxes have 264 rows, and must have 1 to 256"},
                 [&] { make_gl<gl<bf16, 1, 1, -1, -1, st_bf<264, 64>>>(base, {8, 8}); });
         refuses({"3 blocks share it"}, [&] { make_gl<bf_gl>(base, {8, 8}, {0, 0, 8}, 3); });
         using one = gl<bf16, 1, 1, -1, -1, one_box<boxed>>;
         refuses({"(panels, rows, cols)", "the number of cols is 72", "a multiple of 64"},
                 [&] { make_gl<one>(base, {8, 72}); });
         refuses({"4 blocks share it"}, [&] { make_gl<one>(base, {8, 128}, {0, 0, 128}, 4); });
         refuses({"gl: rows is 9, and must be 8"},
                 [&] { make_gl<gl<bf16, 1, 1, 8, -1, bf_tile>>(base, {9, 8}); });
         refuses({"gl: batch is 2, and must be 1"},
                 [&] { make_gl<gl<bf16, 1, -1, -1, -1, bf_tile>>(base, {2, 1, 8, 8}); });
         refuses({"gl: cols is -8, and must be 0 or more"}, [&] { make_gl<bf_gl>(base, {8, -8}); });
         // a dimension of size 1 may have any stride, strides of 0 are a broadcast, and of nothing
         // nothing is copied
         make_gl<bf_gl>(base, {1, 8}, {1, 3, 5});
         make_gl<bf_gl>(base, {4, 5, 8, 8}, {0, 0, 8});
         make_gl<bf_gl>(base + 1, {0, 8});
     }},
    {"a_copy_must_be_of_the_descriptor_s_dimensions_and_box",
     [] {
         const some<gl<bf16, 1, 1, -1, -1, bf_tile>> two({64, 64});
         fails({"at batch 0 and depth 1 of a tensor of 2 dimensions"}, [&] {
             init(1);
             if (first_warp()) {
                 tma::load_async(memory().tiles[0], two.tensor, {1, 0, 0}, memory().ready[0]);
             }
         });
         fails({"at batch 3 and depth 0 of a tensor of 3 dimensions"}, [&] {
             const some<fl_gl> three({64, 32});
             if (first_warp()) tma::prefetch<fl_tile>(three.tensor, {3, 0, 0, 0});
         });
         fails({"a TMA copy without a descriptor"}, [&] {
             if (first_warp()) tma::prefetch<fl_tile>(fl_gl{}, {0, 0});
         });
         const some<gl<bf16, 1, 1, -1, -1, bf_tile>> halves({64, 64}, 2);
         fails({"64 rows", "box of 32 rows"}, [&] {
             if (first_warp()) tma::store_async(halves.tensor, memory().tiles[0], {0, 0});
         });
         const some<gl<bf16, 1, 1, -1, -1, one_box<boxed>>> one({64, 128});
         fails({"from or to column 12", "a multiple of 8, of 16 bytes"}, [&] {
             const some<gl<bf16, 1, 1, -1, -1, bf_tile>> matrix({64, 64});
             if (first_warp()) tma::store_async(matrix.tensor, memory().tiles[0], {0, 12});
         });
         fails({"store_add_async to (0, 0, -8, 0), before the tensor"}, [&] {
             const some<fl_gl> matrix({64, 32});
             if (first_warp()) tma::store_add_async(matrix.tensor, memory().numbers, {-8, 0});
         });
         fails({"to a tensor of 30 cols, which must be a multiple of 4"}, [&] {
             std::vector<float> data(64 * 32);
             const auto matrix = make_gl<fl_gl>(data.data(), {64, 30}, {0, 0, 32});
             if (first_warp()) tma::store_async(matrix, memory().numbers, {0, 0});
         });
         fails({"from or to column -2", "a multiple of 4, of 16 bytes"}, [&] {
             const some<gl<float, 1, 1, -1, -1, vector>> numbers({8, 32});
             if (first_warp()) tma::prefetch<vector>(numbers.tensor, {0, -2});
         });
         fails({"in one box from column 8, which is no multiple of 64"}, [&] {
             if (first_warp()) tma::prefetch<boxed>(one.tensor, {0, 8});
         });
     }},
    {"shared_memory_must_be_aligned_to_the_swizzle",
     [] {
         const some<gl<float, 1, 1, -1, -1, vector>> numbers({8, 32});
         fails({"sv of 32 elements of 4 bytes", "not aligned to 128 bytes"}, [&] {
             if (!first_warp()) return;
             auto& moved = *reinterpret_cast<vector*>(shared_memory() + 64);
             tma::store_async(numbers.tensor, moved, {0, 0});
         });
         fails({"st<float, 64, 32>", "not aligned to its swizzle, 1024 bytes"}, [&] {
             const some<fl_gl> matrix({64, 32});
             if (!first_warp()) return;
             auto& moved = *reinterpret_cast<fl_tile*>(shared_memory() + 512);
             tma::store_add_async(matrix.tensor, moved, {0, 0});
         });
         fails({"is not in the shared memory"}, [&] {
             const auto own = std::make_unique<vector>();
             if (first_warp()) tma::store_async(numbers.tensor, *own, {0, 0});
         });
     }},
    {"reductions_take_effect_at_the_wait",
     [] {
         std::vector<float> data(64 * 32, 1.0f);
         const auto matrix = make_gl<fl_gl>(data.data(), {64, 32});
         run([&] {
             if (!first_warp()) return;
             std::fill_n(memory().numbers.data, 64 * 32, 2.0f);
             tma::store_add_async(matrix, memory().numbers, {0, 0});
             host_check::require(data[5] == 1.0f, "written at once");
             tma::store_async_wait();
             host_check::require(data[5] == 3.0f, "not written at the wait");
         });
         fails({"exits while a TMA store has still to read its tile"}, [&] {
             if (first_warp()) tma::store_add_async(matrix, memory().numbers, {0, 0});
         });
     }},
    {"a_vector_is_poisoned_until_its_load_is_waited_for",
     [] {
         const some<gl<float, 1, 1, -1, -1, vector>> numbers({8, 32});
         fails({"waited for", "load_async to sv of 32 elements"}, [&] {
             init(1);
             if (!first_warp()) return;
             auto& target = *reinterpret_cast<vector*>(shared_memory());
             warp::expect_bytes(memory().ready[0], vector::bytes);
             tma::load_async(target, numbers.tensor, {0, 0}, memory().ready[0]);
         });
     }},
    {"a_copy_to_another_block_must_be_waited_for_on_both_sides",
     [] {
         const auto copy = [](bool receiver_waits, bool sender_stays) {
             init(1);
             if (first_warp() && cluster::rank() == 0) {
                 tma::cluster::store_async(memory().tiles[1], memory().tiles[0], 1,
                                           memory().ready[0]);
             }
             if (first_warp() && cluster::rank() == 1) {
                 warp::expect_bytes(memory().ready[0], bf_tile::bytes);
                 if (receiver_waits) wait(memory().ready[0], 0);
             }
             if (sender_stays) cluster::sync();
         };
         run([&] { copy(true, true); }, {2, 2});
         fails({"cluster::store_async"}, [&] { copy(false, true); }, {2, 2});
         fails({"cluster::store_async of st<bf16, 64, 64>"}, [&] { copy(true, false); }, {2, 2});
     }},
    {"a_source_must_not_be_written_before_its_copy_is_complete",
     [] {
         fails({"store to st<bf16, 64, 64>", "cluster::store_async of st<bf16, 64, 64>"},
               [] {
                   init(1);
                   rt_fl<16, 64> zeros;
                   warp::zero(zeros);
                   if (warpgroup::groupid() == 0 && cluster::rank() == 0) {
                       if (first_warp()) {
                           tma::cluster::store_async(memory().tiles[1], memory().tiles[0], 1,
                                                     memory().ready[0]);
                       }
                       warpgroup::store(memory().tiles[0], zeros);
                   }
                   if (first_warp() && cluster::rank() == 1) {
                       warp::expect_bytes(memory().ready[0], bf_tile::bytes);
                       wait(memory().ready[0], 0);
                   }
                   cluster::sync();
               },
               {2, 2});
     }},
    {"a_copy_to_another_block_needs_a_block_and_alignment",
     [] {
         fails({"cluster::store_async: block 2 is not of the cluster"},
               [] {
                   init(1);
                   if (first_warp()) {
                       tma::cluster::store_async(memory().tiles[1], memory().tiles[0], 2,
                                                 memory().ready[0]);
                   }
                   cluster::sync();
               },
               {2, 2});
         fails({"not aligned to 16 bytes"}, [] {
             init(1);
             if (!first_warp()) return;
             auto& from = *reinterpret_cast<vector*>(shared_memory() + 8);
             auto& to = *reinterpret_cast<vector*>(shared_memory() + 1024);
             tma::cluster::store_async(to, from, 0, memory().ready[0]);
         });
     }},
};

}  // namespace

int main(int count, char** arguments) {
    test_table tests = misuse;
    tests.insert(checks::tma_value_checks.begin(), checks::tma_value_checks.end());
    tests.insert(checks::tma_cluster_checks.begin(), checks::tma_cluster_checks.end());
    return run_tests(tests, count, arguments);
}
