//! What only HDFS has: directories that let nobody in, and tokens that end.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU32, Ordering};

use crate::servers::fixture::{Protocol, fixture};
use crate::servers::wire::Reply;
use headrace_engine::error::ErrorKind;
use headrace_engine::origin::{LeftOut, ListedObject};

fn denied() -> Reply {
    Reply::status(403).body(br#"{"RemoteException":{"exception":"AccessControlException"}}"#)
}

#[tokio::test]
async fn a_directory_that_lets_nobody_in_is_left_out() {
    let fixture = fixture(Protocol::Webhdfs).await;
    fixture.put("closed/file", b"x");
    fixture.put("open/file", b"x");
    fixture.world.tamper(|request, reply| if request.path().contains("closed") { denied() } else { reply });
    let mut listed = fixture.list().await.unwrap();
    listed.sort_by(|left, right| left.key.cmp(&right.key));
    assert_eq!(listed[0], ListedObject::left_out(b"closed", LeftOut::Unreadable));
    assert_eq!(listed[1..].iter().map(|object| &*object.key).collect::<Vec<_>>(), [&b"open"[..], b"open/file"]);
}

#[tokio::test]
async fn a_token_that_ends_within_a_listing_leaves_nothing_out() {
    let fixture = fixture(Protocol::Webhdfs).await;
    fixture.put("one/file", b"x");
    fixture.put("other/file", b"x");
    let asked = AtomicU32::new(0);
    let is_first = move || asked.fetch_add(1, Ordering::SeqCst) == 0;
    fixture.world.tamper(move |_, reply| if is_first() { reply } else { denied() });
    assert_eq!(fixture.list().await.unwrap_err().kind(), ErrorKind::PermissionDenied);
}
