use super::*;
use crate::{
    clock::ManualClock,
    testing::{Script, event, json, list},
};

#[tokio::test(start_paused = true)]
async fn users_share_an_informer_and_the_last_one_stops_it() {
    let (client, script) = Script::client();
    let set = InformerSet::new(client, Arc::new(ManualClock::new(0, 1)));
    let pods = GroupVersionResource::of("", "v1", "pods");
    script.answer(200, &[], &list(5, &[json("a", "b", 3, "")]));
    let feed = script.stream();

    let one = set.get(&pods);
    let two = set.get(&pods);
    assert!(Arc::ptr_eq(&one, &two));
    one.cache().wait_synced().await;
    assert_eq!(two.cache().len(), 1);
    feed.send(event("DELETED", &json("a", "b", 6, ""))).unwrap();
    assert!(
        one.cache()
            .wait_revision(
                pilothouse_api::Revision(6),
                std::time::Duration::from_secs(1)
            )
            .await
    );
    assert!(two.cache().is_empty());

    drop(one);
    assert!(!feed.is_closed());
    assert!(set.running(&pods).is_some());
    drop(two);
    feed.closed().await;
    assert!(set.running(&pods).is_none());
}
