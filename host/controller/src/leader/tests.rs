use std::sync::Arc;

use pilothouse_client::testing::FakeServer;

use super::*;

/// Goes with tokio's paused clock; the jitter is the candidate's own.
struct PausedClock(Instant, usize);

impl Clock for PausedClock {
    fn now_ms(&self) -> u64 {
        1_767_225_600_000 + u64::try_from(self.0.elapsed().as_millis()).unwrap()
    }

    fn random(&self) -> f64 {
        self.1 as f64 / 100.0
    }
}

fn candidate(server: &Arc<FakeServer>, identity: &str) -> Leader {
    let config = LeaderConfig::new("kube-system", "test", identity);
    let clock = Arc::new(PausedClock(Instant::now(), identity.len()));
    Leader::new(server.client(), config, clock)
}

async fn lease(server: &Arc<FakeServer>) -> Value {
    let lease = server.client().get(&LEASES, "kube-system", "test").await;
    decode(&lease.unwrap().bytes).unwrap()["spec"].take()
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_makes_the_lease_and_keeps_it() {
    let server = FakeServer::new();
    let mut leader = candidate(&server, "one");
    leader.acquire().await;
    assert!(*leader.leading().borrow());
    let spec = lease(&server).await;
    assert_eq!(spec["holderIdentity"], "one");
    assert_eq!(spec["leaseDurationSeconds"], 15);
    assert_eq!(spec["renewTime"], "2026-01-01T00:00:00.000000Z");

    let mut other = candidate(&server, "other");
    let holding = leader.hold();
    let minute = tokio::time::timeout(Duration::from_secs(60), other.acquire());
    tokio::select! {
        () = holding => panic!("it lost the lease"),
        acquired = minute => assert!(acquired.is_err(), "somebody took a lease that was held"),
    }
    assert_eq!(lease(&server).await["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_followed_when_its_lease_has_run_out_by_the_local_clock() {
    let server = FakeServer::new();
    let mut dead = candidate(&server, "dead");
    dead.acquire().await;
    let mut heir = candidate(&server, "heir");
    let began = Instant::now();
    heir.acquire().await;
    let waited = began.elapsed();
    let duration = Duration::from_secs(15);
    assert!(
        waited >= duration && waited < duration + Duration::from_secs(5),
        "{waited:?}"
    );
    let spec = lease(&server).await;
    assert_eq!(
        (&spec["holderIdentity"], &spec["leaseTransitions"]),
        (&json!("heir"), &json!(1))
    );

    // the dead one comes back and finds that it leads no longer
    dead.hold().await;
    assert!(!*dead.leading().borrow());
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let server = FakeServer::new();
    let mut leader = candidate(&server, "one");
    leader.acquire().await;
    leader.release().await;
    assert!(!*leader.leading().borrow());
    assert_eq!(lease(&server).await["holderIdentity"], "");
    let mut heir = candidate(&server, "heir");
    let began = Instant::now();
    heir.acquire().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    leader.release().await;
    assert_eq!(
        lease(&server).await["holderIdentity"],
        "heir",
        "only its own is released"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_others_may_follow() {
    let server = FakeServer::new();
    let mut leader = candidate(&server, "one");
    leader.acquire().await;
    for _ in 0..100 {
        server.refuse_next(
            http::Method::PUT,
            "/apis/coordination",
            Status::internal("no"),
        );
    }
    let began = Instant::now();
    leader.hold().await;
    let held = began.elapsed();
    assert!(
        held >= Duration::from_secs(8) && held <= Duration::from_secs(10),
        "{held:?}"
    );
    assert!(!*leader.leading().borrow());
}

#[tokio::test(start_paused = true)]
async fn passing_trouble_is_survived() {
    let server = FakeServer::new();
    let mut leader = candidate(&server, "one");
    leader.acquire().await;
    for _ in 0..3 {
        server.refuse_next(
            http::Method::PUT,
            "/apis/coordination",
            Status::internal("no"),
        );
    }
    let minute = tokio::time::timeout(Duration::from_secs(60), leader.hold()).await;
    assert!(minute.is_err(), "it leads on");
}

#[tokio::test(start_paused = true)]
async fn of_many_candidates_one_leads() {
    let server = FakeServer::new();
    let mut candidates: Vec<Leader> = (0..5)
        .map(|n| candidate(&server, &format!("candidate-{n}")))
        .collect();
    let tries = candidates.iter_mut().map(|c| async {
        tokio::time::timeout(Duration::from_secs(10), c.acquire())
            .await
            .is_ok()
    });
    let won = futures::future::join_all(tries).await;
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
}
