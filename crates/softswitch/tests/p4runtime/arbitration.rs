//! Election of the primary, and the rights of the other controllers.

use tributary_p4runtime::Code;
use tributary_p4runtime::session::Mastership;

use crate::fixture::{INFO, JSON, Rig, admission, insert, told};

#[tokio::test]
async fn the_highest_election_id_is_primary_and_everyone_is_told() {
    let rig = Rig::start().await;
    let low = rig.connect(1).await.unwrap();
    assert!(low.is_primary());
    let high = rig.connect(1 << 64).await.unwrap();
    assert!(high.is_primary());
    told(&low, Mastership::Backup { primary: 1 << 64 }).await;
    let middle = rig.connect(5).await.unwrap();
    assert_eq!(*middle.mastership().borrow(), Mastership::Backup { primary: 1 << 64 });
    assert!(high.is_primary());
}

#[tokio::test]
async fn the_next_one_takes_over_when_the_primary_leaves() {
    let rig = Rig::start().await;
    let low = rig.connect(1).await.unwrap();
    let middle = rig.connect(2).await.unwrap();
    let high = rig.connect(3).await.unwrap();
    told(&low, Mastership::Backup { primary: 3 }).await;
    drop(high);
    told(&middle, Mastership::Primary).await;
    told(&low, Mastership::Backup { primary: 2 }).await;
    middle.primary().await.unwrap();
    middle.set_pipeline(JSON.as_bytes(), &INFO, 1).await.unwrap();
}

#[tokio::test]
async fn only_the_primary_writes() {
    let rig = Rig::start().await;
    let old = rig.connect(1).await.unwrap();
    old.set_pipeline(JSON.as_bytes(), &INFO, 1).await.unwrap();
    let new = rig.connect(2).await.unwrap();
    let refused = old.write(vec![insert(admission(1, 1))]).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::PermissionDenied), "{refused}");
    let refused = old.set_pipeline(JSON.as_bytes(), &INFO, 2).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::PermissionDenied), "{refused}");
    new.write(vec![insert(admission(1, 1))]).await.unwrap();
    assert_eq!(
        crate::fixture::entries(&old, "admission").await,
        [admission(1, 1)],
        "reading is for everyone"
    );
}

#[tokio::test]
async fn without_an_election_id_a_controller_only_listens() {
    let rig = Rig::start().await;
    let listener = rig.connect(0).await.unwrap();
    assert_eq!(*listener.mastership().borrow(), Mastership::Nobody);
    let refused = listener.set_pipeline(JSON.as_bytes(), &INFO, 1).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::PermissionDenied), "{refused}");
    let primary = rig.connect(4).await.unwrap();
    told(&listener, Mastership::Backup { primary: 4 }).await;
    let second = rig.connect(0).await.unwrap();
    assert_eq!(*second.mastership().borrow(), Mastership::Backup { primary: 4 });
    drop(primary);
    told(&listener, Mastership::Nobody).await;
    told(&second, Mastership::Nobody).await;
}

#[tokio::test]
async fn an_election_id_in_use_and_a_foreign_device_are_refused() {
    let rig = Rig::start().await;
    let first = rig.connect(1).await.unwrap();
    let twin = rig.connect(1).await.unwrap_err();
    assert_eq!(twin.code(), Some(Code::InvalidArgument), "{twin}");
    let stray = rig.connect_to(99, 7).await.unwrap_err();
    assert_eq!(stray.code(), Some(Code::NotFound), "{stray}");
    assert!(stray.to_string().contains("99"), "{stray}");
    assert!(first.is_primary());
}

#[tokio::test]
async fn too_many_controllers_are_refused() {
    let rig = Rig::start().await;
    let mut sessions = Vec::new();
    let refused = loop {
        match rig.connect(sessions.len() as u128 + 1).await {
            Ok(session) => sessions.push(session),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code(), Some(Code::ResourceExhausted), "{refused}");
    assert_eq!(sessions.len(), 16, "as many as simple_switch_grpc takes");
}
