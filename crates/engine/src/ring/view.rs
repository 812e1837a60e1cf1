//! The list of workers that a cluster agreed on, as it crosses the wire: JSON, unknown keys refused, checked whole.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::address;
use crate::error::{Error, ErrorKind, Result};

/// More workers than this are refused.
pub const MAX_MEMBERS: usize = 65_535;
/// A longer text is refused before it is parsed.
pub const MAX_VIEW_BYTES: usize = 64 << 20;
const MAX_NAME_BYTES: usize = 255;

/// A worker's name: unique in its cluster, and the same after a restart, since its place follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct MemberId(pub Arc<str>);

/// What a listed worker is there for. Dead ones are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// Owns its share.
    Active,
    /// Owns nothing any more, but still hands out what it has.
    Draining,
}

/// One worker, as everybody sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    pub id: MemberId,
    /// `host:port` of its peer server.
    pub address: String,
    /// The machine that it runs on; what runs on the same machine is nearest.
    pub node: String,
    /// Its share relative to others: the bytes that its cache may hold. With 0 it owns nothing.
    pub weight: u64,
    pub state: MemberState,
    /// The epoch of the first view that listed it in this life: whoever was listed before it may hold what it owns now.
    pub joined_epoch: u64,
    /// How much it had cached when the view was written. Says whether asking it can help; placement does not use it.
    pub cached_bytes: u64,
    /// Where programs of its machine borrow cached files as descriptors.
    #[serde(default)]
    pub lease_socket: Option<PathBuf>,
}

/// The workers of a cluster at one epoch. Two readers of the same epoch place everything alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Grows with each change that matters to readers.
    pub epoch: u64,
    /// How many workers own each stripe.
    pub replicas: u32,
    /// In any order.
    pub members: Vec<Member>,
}

impl View {
    /// Parses and checks the JSON of a view.
    pub fn from_json(text: &[u8]) -> Result<View> {
        if text.len() > MAX_VIEW_BYTES {
            return Err(refused(format!("it has {} bytes, and {MAX_VIEW_BYTES} are the most", text.len())));
        }
        let view: View = serde_json::from_slice(text).map_err(|error| refused(error.to_string()))?;
        view.check()?;
        Ok(view)
    }

    /// Refuses what no master of ours writes: then the view is damaged, or comes from something else.
    pub fn check(&self) -> Result<()> {
        if self.replicas == 0 {
            return Err(refused("replicas is 0".to_owned()));
        }
        if self.members.len() > MAX_MEMBERS {
            return Err(refused(format!("it lists {} workers, and {MAX_MEMBERS} are the most", self.members.len())));
        }
        let mut seen = HashSet::with_capacity(self.members.len());
        for member in &self.members {
            member.check()?;
            if !seen.insert(&member.id) {
                return Err(refused(format!("two workers are called '{}'", member.id)));
            }
        }
        Ok(())
    }
}

impl Member {
    fn check(&self) -> Result<()> {
        for (what, name) in [("id", &*self.id.0), ("node", &*self.node)] {
            if let Some(fault) = name_fault(name) {
                return Err(refused(format!("the {what} {name:.64?} of a worker {fault}")));
            }
        }
        if let Some(fault) = address::fault(&self.address) {
            return Err(refused(format!("the address {:.64?} of worker '{}' {fault}", self.address, self.id)));
        }
        match &self.lease_socket {
            Some(path) if !path.is_absolute() => {
                Err(refused(format!("the lease socket of worker '{}' is no absolute path", self.id)))
            }
            _ => Ok(()),
        }
    }
}

fn name_fault(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("is empty"),
        long if long.len() > MAX_NAME_BYTES => Some("is longer than 255 bytes"),
        odd if odd.chars().any(char::is_control) => Some("has control characters"),
        _ => None,
    }
}

fn refused(fault: String) -> Error {
    Error::new(ErrorKind::Config, format!("the view of the cluster cannot be used: {fault}"))
        .with_hint("check that the address given as the master's is one, and that both sides have the same version")
}

impl From<String> for MemberId {
    fn from(id: String) -> Self {
        MemberId(id.into())
    }
}

impl From<&str> for MemberId {
    fn from(id: &str) -> Self {
        MemberId(id.into())
    }
}

impl From<MemberId> for String {
    fn from(id: MemberId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const GOOD: &str = r#"{"epoch": 7, "replicas": 2, "members": [{"id": "node-1", "address": "10.0.0.1:7070",
        "node": "node-1", "weight": 1000, "state": "draining", "joined_epoch": 3, "cached_bytes": 5,
        "lease_socket": "/run/headrace/lease.sock"}]}"#;

    #[test]
    fn a_view_survives_its_json() {
        let view = View::from_json(GOOD.as_bytes()).unwrap();
        assert_eq!(view.members[0].state, MemberState::Draining);
        assert_eq!(View::from_json(&serde_json::to_vec(&view).unwrap()).unwrap(), view);
    }

    #[test]
    fn each_absurdity_is_refused_by_name() {
        let cases = [
            (r#""replicas": 2"#, r#""replicas": 0"#, "replicas is 0"),
            (r#""id": "node-1""#, r#""id": """#, "is empty"),
            (r#""id": "node-1""#, r#""id": "a\u0000b""#, "control characters"),
            (r#""node": "node-1""#, r#""node": """#, "the node \"\""),
            ("10.0.0.1:7070", "10.0.0.1", "has no port"),
            (r#""weight": 1000"#, r#""weight": -1"#, "expected u64"),
            (r#""weight": 1000"#, r#""wieght": 1000"#, "wieght"),
            ("draining", "dead", "dead"),
            ("/run/headrace", "run/headrace", "no absolute path"),
            (r#"{"epoch": 7"#, r#"{"epoch": 7, "extra": 1"#, "extra"),
        ];
        for (good, bad, expected) in cases {
            let text = GOOD.replacen(good, bad, 1);
            assert_ne!(text, GOOD, "{good}");
            let error = View::from_json(text.as_bytes()).unwrap_err();
            assert!(error.message().contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn two_workers_of_one_name_and_too_many_workers_are_refused() {
        let mut view = View::from_json(GOOD.as_bytes()).unwrap();
        view.members.push(view.members[0].clone());
        assert!(view.check().unwrap_err().message().contains("two workers are called 'node-1'"));
        view.members = (0..=MAX_MEMBERS)
            .map(|number| Member { id: MemberId::from(number.to_string()), ..view.members[0].clone() })
            .collect();
        assert!(view.check().unwrap_err().message().contains("65536 workers"));
        view.members.pop();
        view.check().unwrap();
    }
}
