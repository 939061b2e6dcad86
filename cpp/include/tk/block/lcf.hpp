// The load-compute-finish template: one producer warpgroup fills a ring of input stages, consumer
// warpgroups compute on them and finish each task; a loop over tasks.
//
// A kernel K gives
//   K::globals              with a `lcf_config config`
//   K::layout::input_block  one stage
//   K::common_setup(globals, cluster_tile, task) -> iterations
//   K::producer::load(args)     starts the loads of one stage into args.input, and has
//                               args.inputs_arrived told of them
//   K::consumer::state          registers of a consumer, kept from task to task
//   K::consumer::compute(args)  on one stage, args.input(), which it gives back by args.release()
//   K::consumer::finish(args)   once a task
//   K::num_consumer_warpgroups
// and may give
//   K::layout::scratch_block    shared memory outside the ring: args.scratch, of the producer too.
//                               config.tail_bytes of it, as many as a launch needs, are at
//                               args.tail()
//   K::init_scratch(scratch)    prepares the semaphores in it: by one warp, before all else
//   K::layout::finish_block     memory for `finish` in the place of the input stages:
//                               args.finish_block(), which waits until every consumer has released
//                               its last stage. The next task's loads start when all have finished
//   K::common_state             what is known of a task, args.common: then it is
//                               K::common_setup(globals, cluster_tile, task, common_state&)
//   K::producer::state          registers of a producer's warp, kept from task to task: args.state
//   K::producer::warps          1: so many warps call `load`;
//   K::producer::arrivals       as many: arrivals at args.inputs_arrived a stage, of them all
//   K::producer::prefetch(globals)  fetches descriptors, before the first task
//   K::max_stages               16: the deepest ring
//   K::producer_registers, K::consumer_registers  registers of a lane, moved between the two
//   K::consumer_lead(iterations)  with two consumers, by how many of them the first goes ahead of
//                               the second, so that one computes while the other finishes
//   K::scheduler                where tasks come from (scheduler.hpp); static_or_queue_scheduler
#pragma once
#include "tk/block/pipeline.hpp"

TK_NAMESPACE_BEGIN

template <class K>
struct lcf : pipeline<K, false> {
    static_assert(std::is_base_of_v<lcf_config, decltype(K::globals::config)>,
                  "lcf: K::globals needs a `lcf_config config`");
    static_assert(
        requires(const typename lcf::consumer_args& args) {
            K::consumer::compute(args);
            K::consumer::finish(args);
        }, "lcf: K::consumer needs compute(args) and finish(args)");
    static_assert(
        requires(const typename lcf::producer_args& args) { K::producer::load(args); },
        "lcf: K::producer needs load(args)");
};

TK_NAMESPACE_END
