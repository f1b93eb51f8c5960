use std::sync::Arc;

use super::*;

fn queue() -> Arc<WorkQueue<&'static str>> {
    Arc::new(WorkQueue::new())
}

#[tokio::test]
async fn a_key_added_twice_runs_once_and_in_order() {
    let queue = queue();
    for key in ["a", "b", "a"] {
        queue.add(key);
    }
    assert_eq!(queue.len(), 2);
    assert_eq!(queue.get().await, Some("a"));
    assert_eq!(queue.get().await, Some("b"));
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_running_key_runs_again_only_when_it_is_done() {
    let queue = queue();
    queue.add("a");
    queue.get().await;
    queue.add("a");
    queue.add("a");
    let second = tokio::time::timeout(Duration::from_secs(1), queue.get()).await;
    assert!(second.is_err(), "never twice at once");
    queue.done(&"a");
    assert_eq!(queue.get().await, Some("a"));
    queue.done(&"a");
    assert!(queue.is_idle());
}

#[tokio::test(start_paused = true)]
async fn failures_wait_twice_as_long_each_time_up_to_a_bound() {
    let queue = queue();
    let mut waits = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        queue.add_rate_limited("a");
        queue.get().await;
        waits.push(began.elapsed().as_millis());
        queue.done(&"a");
    }
    assert_eq!(waits[..4], [5, 10, 20, 40]);
    assert_eq!(waits[17], 5 << 17);
    assert_eq!(waits[18..], [1_000_000, 1_000_000]);
    assert_eq!(queue.failures(&"a"), 20);
    queue.forget(&"a");
    let began = Instant::now();
    queue.add_rate_limited("a");
    queue.get().await;
    assert_eq!(began.elapsed().as_millis(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_earliest_of_several_delays_counts_and_an_add_ends_them() {
    let queue = queue();
    let began = Instant::now();
    queue.add_after("a", Duration::from_secs(9));
    queue.add_after("a", Duration::from_secs(3));
    queue.add_after("a", Duration::from_secs(6));
    queue.add_after("b", Duration::from_secs(4));
    assert_eq!(queue.get().await, Some("a"));
    assert_eq!(began.elapsed().as_secs(), 3);
    queue.add("b");
    assert_eq!(queue.get().await, Some("b"));
    assert_eq!(began.elapsed().as_secs(), 3);
    queue.done(&"a");
    queue.done(&"b");
    assert!(queue.is_idle(), "no delay is left over");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_taker_sees_a_delay_that_ends_earlier() {
    let queue = queue();
    queue.add_after("late", Duration::from_secs(60));
    let taker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await }
    });
    tokio::task::yield_now().await;
    queue.add_after("soon", Duration::from_secs(1));
    assert_eq!(taker.await.unwrap(), Some("soon"));
}

#[tokio::test]
async fn many_workers_take_each_key_once() {
    let queue: Arc<WorkQueue<u32>> = Arc::new(WorkQueue::new());
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut taken = Vec::new();
                while let Some(key) = queue.get().await {
                    taken.push(key);
                    tokio::task::yield_now().await;
                    queue.done(&key);
                    if key == 999 {
                        queue.close();
                    }
                }
                taken
            })
        })
        .collect();
    for key in 0..1000 {
        queue.add(key);
    }
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
}

#[tokio::test]
async fn closing_ends_every_taker() {
    let queue = queue();
    let takers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.close();
    for taker in takers {
        assert_eq!(taker.await.unwrap(), None);
    }
}
