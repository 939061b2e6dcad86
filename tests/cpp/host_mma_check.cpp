// Matrix products of the emulated machine: more of the cases that the GPU runs too, what it says of
// misuse, and that nothing of their synchronisation can be left out. See host_check.hpp.
#include <cmath>

#include "host_check.hpp"
#include "mma_cases.hpp"

namespace {

using namespace host_check;
using namespace mma_cases;
using host_check::run;
using tk::half;

template <class Case>
void require_right(const char* name) {
    const int wrong = mma_cases::run<Case>();
    require(wrong == 0, std::string(name) + ": " + std::to_string(wrong) + " wrong elements");
}

template <int N>
void every_source_of_a() {
    const std::string name = "N = " + std::to_string(N);
    require_right<warpgroup_case<false, true, bf16, bf16, 64, N, 32>>(name.c_str());
    require_right<warpgroup_case<false, false, bf16, bf16, 64, N, 16, source::registers>>(
        name.c_str());
}

template <bool TransposeA, bool TransposeB, int Swizzle>
void swizzle_and_parts() {
    constexpr auto whole = source::whole, part = source::part;
    constexpr int width = Swizzle == 0 ? 16 : Swizzle / 2;  // columns of a panel, and at least K
    constexpr int k = width;
    const std::string name = "swizzle " + std::to_string(Swizzle);
    require_right<warpgroup_case<TransposeA, TransposeB, bf16, bf16, 64, 64, k, whole, whole,
                                 Swizzle, Swizzle>>((name + ", whole").c_str());
    require_right<warpgroup_case<TransposeA, TransposeB, bf16, bf16, 64, 64, k, part, part, Swizzle,
                                 Swizzle>>((name + ", parts").c_str());
}
template <bool TransposeA, bool TransposeB>
void every_swizzle() {
    swizzle_and_parts<TransposeA, TransposeB, 0>();
    swizzle_and_parts<TransposeA, TransposeB, 32>();
    swizzle_and_parts<TransposeA, TransposeB, 64>();
    swizzle_and_parts<TransposeA, TransposeB, 128>();
}

// Two uncommitted products of one group over shared tiles and registers, as mma_cases::group_case,
// but whatever comes of it: wrong elements, or the error.
std::string verdict_of_groups() {
    try {
        const int wrong = mma_cases::run<group_case>();
        return wrong == 0 ? "ok" : std::to_string(wrong) + " wrong elements";
    } catch (const std::exception& error) {
        return error.what();
    }
}

// The first warpgroup, with a tile of ones that may be multiplied.
template <class F>
void with_ones(F&& body) {
    rt_fl<16, 64> ones;
    std::fill_n(ones.data, ones.elements, 1.0f);
    if (warpgroup::groupid() == 1) return;
    warpgroup::store(memory().tiles[0], ones);
    fence_async_proxy();
    warpgroup::sync(1);
    body(memory().tiles[0]);
}

const test_table tests = {
    {"products_are_right",
     [] {
         int cases = 0;
         const auto check = [&](const char* name, int (*wrong_elements)()) {
             const int wrong = wrong_elements();
             require(wrong == 0, std::string(name) + ": " + std::to_string(wrong));
             ++cases;
         };
         for_each_case_of_shared_operands(check);
         for_each_case_of_registers(check);
         require(cases > 30, "too few cases");
     }},
    {"every_width_is_right",
     [] {
         every_source_of_a<8>();
         every_source_of_a<24>();
         every_source_of_a<104>();
         every_source_of_a<192>();
         every_source_of_a<248>();
         every_source_of_a<256>();
     }},
    {"every_swizzle_is_right_with_parts_of_tiles",
     [] {
         every_swizzle<false, false>();
         every_swizzle<false, true>();
         every_swizzle<true, false>();
         every_swizzle<true, true>();
     }},
    {"floats_are_cut_to_tf32",
     [] {
         std::atomic<int> wrong{0};
         run([&] {
             rt_fl<16, 16> a, product;
             rt<float, 16, 16, col_layout> identity;
             std::fill_n(a.data, a.elements, 1.0f + 0x1p-10f + 0x1.8p-11f);  // rounded, 2^-9
             for (int i = 0; i < 256; ++i) identity.data[i] = i % 17 == 0 ? 1.0f : 0.0f;
             warp::mm_AB(product, a, identity);
             for (const float x : product.data) wrong += x != 1.0f + 0x1p-10f;
         });
         require(wrong == 0, std::to_string(wrong) + " elements");
     }},
    {"every_8_bit_number_is_exact",
     [] {
         std::atomic<int> wrong{0};
         run([&] {
             rt<e5m2, 16, 32> a;
             rt<e4m3, 32, 16, col_layout> identity;
             rt_fl<16, 16> product;
             for (int first = 0; first < 256; first += 16) {
                 for (int i = 0; i < 512; ++i) {
                     const uint8_t bits = uint8_t(first + i % 32 % 16);
                     const e5m2 value = e5m2::bitcast(bits);
                     a.data[i] = std::isfinite(float(value)) ? value : e5m2(1.0f);
                     identity.data[i] = e4m3(i / 16 == i % 16 ? 1.0f : 0.0f);
                 }
                 warp::mm_AB(product, a, identity);
                 for (int i = 0; i < 256; ++i) {
                     wrong += product.data[i] != float(a.data[i / 16 * 32 + i % 16]);
                 }
             }
         });
         require(wrong == 0, std::to_string(wrong) + " elements");
     }},
    {"a_register_operand_is_nan_until_its_product_is_waited_for",
     [] {
         std::atomic<int> wrong{0};
         run([&] {
             with_ones([&](bf_tile& ones) {
                 rt_fl<16, 64> product;
                 rt_bf<16, 64> a;
                 std::fill_n(a.data, a.elements, bf16(2.0f));
                 warpgroup::mm_AB(product, a, ones);
                 for (const bf16 x : a.data) wrong += !std::isnan(float(x));
                 warpgroup::mma_AB(product, a, ones);
                 warpgroup::mma_async_wait<1>(product, a);
                 for (const bf16 x : a.data) wrong += !std::isnan(float(x));
                 warpgroup::mma_async_wait<0>(product, a);
                 for (const bf16 x : a.data) wrong += float(x) != 2.0f;
                 for (const float x : product.data) wrong += x != 256.0f;
             });
         });
         require(wrong == 0, std::to_string(wrong) + " elements");
     }},
    {"a_register_operand_must_not_be_written_in_flight",
     [] {
         fails({"a register tile was written while a product that reads it was in flight"}, [] {
             with_ones([](bf_tile& ones) {
                 rt_fl<16, 64> product;
                 rt_bf<16, 64> a;
                 warpgroup::mm_AB(product, a, ones);
                 a.data[5] = bf16(1.0f);
                 warpgroup::mma_async_wait<0>(product, a);
             });
         });
     }},
    {"a_wait_names_register_operands_too",
     [] {
         fails({"does not name every register tile"}, [] {
             with_ones([](bf_tile& ones) {
                 rt_fl<16, 64> product;
                 rt_bf<16, 64> a;
                 warpgroup::mm_AB(product, a, ones);
                 warpgroup::mma_async_wait<0>(product);
             });
         });
     }},
    {"a_group_is_one_to_the_wait",
     [] {
         std::atomic<int> wrong{0};
         run([&] {
             with_ones([&](bf_tile& ones) {
                 rt_fl<16, 64> one, two;
                 warp::zero(one);
                 warpgroup::mma_fence(one);
                 warpgroup::uncommitted::mma_AB(one, ones, ones);
                 warpgroup::uncommitted::mma_AB(one, ones, ones);
                 warpgroup::mma_commit_group();
                 warpgroup::mm_AB(two, ones, ones);
                 warpgroup::mma_commit_group();  // an empty group counts
                 warpgroup::mma_async_wait<2>(one, two);
                 for (const float x : one.data) wrong += x != 128.0f;
                 for (const float x : two.data) wrong += !std::isnan(x);
                 warpgroup::mma_async_wait<1>(two);
                 for (const float x : two.data) wrong += x != 64.0f;
                 warpgroup::mma_async_wait<0>();
             });
         });
         require(wrong == 0, std::to_string(wrong) + " elements");
     }},
    {"uncommitted_products_need_a_fence",
     [] {
         fails({"no mma_fence of this group names the register tile"}, [] {
             with_ones([](bf_tile& ones) {
                 rt_fl<16, 64> product;
                 rt_bf<16, 64> a;
                 warpgroup::mma_fence(product);
                 warpgroup::uncommitted::mma_AB(product, a, ones);
             });
         });
     }},
    {"registers_must_not_be_written_after_their_fence",
     [] {
         fails({"a register tile was written after its mma_fence"}, [] {
             with_ones([](bf_tile& ones) {
                 rt_fl<16, 64> product;
                 warpgroup::mma_fence(product);
                 warp::zero(product);
                 warpgroup::uncommitted::mma_AB(product, ones, ones);
             });
         });
     }},
    {"a_group_must_be_committed",
     [] {
         fails({"exits with matrix products in flight"}, [] {
             with_ones([](bf_tile& ones) {
                 rt_fl<16, 64> product;
                 warpgroup::mma_fence(product);
                 warpgroup::uncommitted::mma_AB(product, ones, ones);
                 warpgroup::mma_async_wait<0>(product);
             });
         });
     }},
    {"a_part_in_flight_must_not_be_written",
     [] {
         fails({"store to st<bf16, 64, 64>", "mma of st<bf16, 64, 64>", "nobody has waited for"},
               [] {
                   with_ones([](bf_tile& ones) {
                       rt_fl<16, 32> product;
                       rt_fl<16, 64> other;
                       warp::zero(other);
                       const auto a = ones.subtile<64, 32>(0, 1);
                       const auto b = ones.subtile<32, 32>(1, 0);
                       warpgroup::mm_ABt(product, a, b);
                       warpgroup::store(ones, other);
                       warpgroup::mma_async_wait<0>(product);
                   });
               });
     }},
    {"rows_beside_a_part_in_flight_may_be_written",
     [] {
         run([] {
             with_ones([](bf_tile&) {
                 rt_fl<16, 32> product;
                 bf_tile& tile = memory().tiles[1];
                 warpgroup::mm_ABt(product, memory().tiles[0], tile.subtile<32, 64>(1, 0));
                 if (warpgroup::warpid() == 0) machine::note_rows(tile, 0, 32, true, "store");
                 warpgroup::mma_async_wait<0>(product);
             });
         });
     }},
    {"none_of_fence_commit_and_wait_can_be_left_out",
     [] {
         machine::sabotage::record();
         require(verdict_of_groups() == "ok", "the kernel as it is");
         int dropped = 0;
         for (const std::string& site : machine::sabotage::sites()) {
             if (site.rfind("mma_", 0) != 0) continue;
             machine::sabotage::drop(site);
             const std::string verdict = verdict_of_groups();
             machine::sabotage::drop("");
             require(verdict != "ok", "nobody misses " + site);
             ++dropped;
         }
         require(dropped == 4,
                 std::to_string(dropped) + " sites, not a fence, a commit, two waits");
     }},
};

}  // namespace

int main(int count, char** arguments) { return run_tests(tests, count, arguments); }
