//! The identity shown to the server: the user and the groups of AUTH_SYS, which the server takes on trust.

use bytes::Bytes;

use crate::origin::nfs::xdr::Writer;

/// What AUTH_SYS has room for.
const MOST_GROUPS: usize = 16;
const MACHINE: &[u8] = b"headrace";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Identity {
    /// The given user and group; for what is not given, this process's own. Other groups of the process go along only
    /// when nothing was given: they are not those of another user.
    pub fn of(uid: Option<u32>, gid: Option<u32>) -> Self {
        let own = uid.is_none() && gid.is_none();
        let groups = if own { nix::unistd::getgroups().unwrap_or_default() } else { Vec::new() };
        Identity {
            uid: uid.unwrap_or_else(|| nix::unistd::geteuid().as_raw()),
            gid: gid.unwrap_or_else(|| nix::unistd::getegid().as_raw()),
            groups: groups.into_iter().map(|group| group.as_raw()).take(MOST_GROUPS).collect(),
        }
    }

    /// The body of the credential.
    pub fn credential(&self) -> Bytes {
        let start = Writer::default().number(0).opaque(MACHINE).number(self.uid).number(self.gid);
        self.groups.iter().fold(start.number(self.groups.len() as u32), |body, group| body.number(*group)).finish()
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "user {}, group {}", self.uid, self.gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_user_does_not_bring_our_groups() {
        let other = Identity::of(Some(1000), None);
        assert!(other.groups.is_empty());
        assert_eq!(other.uid, 1000);
        assert!(Identity::of(None, None).groups.len() <= MOST_GROUPS);
    }

    #[test]
    fn the_credential_is_that_of_auth_sys() {
        let body = Identity { uid: 3, gid: 4, groups: vec![5, 6] }.credential();
        let tail: Vec<u8> = [3u32, 4, 2, 5, 6].iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(&body[..4], [0; 4]);
        assert!(body.ends_with(&tail));
    }
}
