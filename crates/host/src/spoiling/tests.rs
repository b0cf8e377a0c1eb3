// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;

fn names(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_string).collect()
}

fn event(pfn: u64, order: u8, task: &str) -> SpoilEvent {
    SpoilEvent {
        time_ns: 0,
        pfn: Pfn(pfn),
        cgroup: u64::MAX,
        pid: 1,
        gfp: 0xcc0,
        kind: Harm::Spoiled,
        order,
        asked: MigrateType::Unmovable,
        task: task.to_string(),
        stack: vec![1, 2],
    }
}

#[test]
fn the_caller_is_the_innermost_function_outside_the_allocators() {
    let (stack, context) = split(names(
        "0xffffffffc0026a70 bpf_trace_run4 __alloc_frozen_pages_noprof alloc_pages_mpol \
         allocate_slab \
         ___slab_alloc kmem_cache_alloc_noprof __d_alloc d_alloc do_sys_openat2",
    ));
    assert_eq!(stack, names("__d_alloc d_alloc do_sys_openat2"));
    assert_eq!(context, Context::Task);
    // A stack of allocators only keeps its first name.
    assert_eq!(split(names("alloc_pages_noprof")).0, ["alloc_pages_noprof"]);
    assert_eq!(split(Vec::new()).0, Vec::<String>::new());
}

#[test]
fn interrupts_are_told_from_the_task_that_they_met() {
    let (stack, context) = split(names(
        "__alloc_pages page_pool_alloc_pages net_rx_action handle_softirqs __irq_exit_rcu \
         common_interrupt do_user_thing",
    ));
    assert_eq!(context, Context::Interrupt);
    assert_eq!(
        stack,
        names("page_pool_alloc_pages net_rx_action handle_softirqs")
    );
    let (_, context) = split(names(
        "page_pool_alloc net_rx_action handle_softirqs run_ksoftirqd kthread",
    ));
    assert_eq!(context, Context::KernelThread);
    assert_eq!(kernel_thread("ksoftirqd/1"), "ksoftirqd");
}

#[test]
fn sites_are_ranked_by_the_blocks_they_spoil() {
    let mut sites = SpoilSites::default();
    sites.add(&event(5, 0, "a"));
    sites.add(&event(512, 10, "b"));
    sites.add(&event(4096, 0, "a"));
    sites.add(&event(8192, 0, "a"));
    let mut fallback = event(9, 3, "c");
    fallback.kind = Harm::Fallback;
    sites.add(&fallback);
    let ranked = sites.ranked();
    let of = |at: usize| (ranked[at].process.as_str(), ranked[at].blocks.clone());
    assert_eq!(of(0), ("a", vec![0, 8, 16]));
    // An allocation larger than a block spoils all that it lies in.
    assert_eq!(of(1), ("b", vec![1, 2]));
    assert_eq!(of(2), ("c", vec![]));
    assert_eq!((ranked[2].fallbacks, ranked[2].orders), (1, 1 << 3));
}
