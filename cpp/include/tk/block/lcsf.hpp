// The load-compute-store-finish template: lcf with a ring of output stages. Consumers compute every
// input stage into an output stage, and one warp more, of the producer's warpgroup, stores those
// while the next ones are computed.
//
// A kernel K gives what lcf.hpp says, with these differences:
//   K::globals                  with a `lcsf_config config`
//   K::layout::output_block     one output stage
//   K::consumer::compute(args)  writes args.output() too, each consumer its part. What it writes by
//                               ordinary stores, a TMA store may read: the template fences it
//   K::storer::store(args)      starts the stores of one stage, args.output; by one warp. At least
//                               one TMA store a stage, or none in any, but ordinary reads. The
//                               template waits until they have read the stage
//   K::consumer::finish(args)   may be left out
//   K::producer::warps          3 at most
//   K::max_output_stages        8: the deepest output ring; may be left out
#pragma once
#include "tk/block/pipeline.hpp"

TK_NAMESPACE_BEGIN

template <class K>
struct lcsf : pipeline<K, true> {
    static_assert(std::is_base_of_v<lcsf_config, decltype(K::globals::config)>,
                  "lcsf: K::globals needs a `lcsf_config config`");
    static_assert(
        requires { typename K::layout::output_block; }, "lcsf: K::layout needs an output_block");
    static_assert(
        requires(const typename lcsf::consumer_args& args) { K::consumer::compute(args); },
        "lcsf: K::consumer needs compute(args)");
    static_assert(
        requires(const typename lcsf::producer_args& args) { K::producer::load(args); },
        "lcsf: K::producer needs load(args)");
    static_assert(
        requires(const typename lcsf::storer_args& args) { K::storer::store(args); },
        "lcsf: K::storer needs store(args)");
};

TK_NAMESPACE_END
